# SPDX-License-Identifier: Apache-2.0
"""Write `purax/data/digits.npz` and `purax/data/digits_split.json`. Run once, where scikit-learn is installed.

    python tools/make_digits.py [FOLDER]

The images are those of scikit-learn's wheel, which copied them from the UCI repository (see purax/data/DIGITS.md).
The held-out fifth is drawn class by class with a fixed seed, and written down so that nobody has to draw it again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits  # type: ignore[import-not-found,unused-ignore]

SEED = 1998  # the year the data were published
HELD_OUT = 0.2


def main() -> None:
    """Read, check, write."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "purax" / "data"
    source = load_digits()
    images, labels = source.images.astype(np.uint8), source.target.astype(np.uint8)
    if images.shape != (1797, 8, 8) or not np.array_equal(images, source.images):
        raise SystemExit(f"unexpected data: {images.shape}")
    np.savez_compressed(folder / "digits.npz", images=images, labels=labels)
    rng = np.random.default_rng(SEED)
    held_out: list[int] = []
    for digit in range(10):
        members = rng.permutation(np.flatnonzero(labels == digit))
        held_out += members[: round(HELD_OUT * len(members))].tolist()
    split = {"seed": SEED, "fraction": HELD_OUT, "held_out": sorted(held_out)}
    (folder / "digits_split.json").write_text(json.dumps(split) + "\n")
    print(f"{len(labels)} images, {len(held_out)} held out")


if __name__ == "__main__":
    main()
