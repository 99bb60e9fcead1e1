# SPDX-License-Identifier: Apache-2.0
"""Keep the numbers that JAX draws: `python tools/make_random_parity.py`, in an environment with JAX 0.10.2.

Writes `tests/random/parity.npz`: for each case of `tests/random/parity_cases.py` the raw bits of the result. Values only.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax
import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "random"


def main() -> None:
    """Run all cases and write the file."""
    spec = importlib.util.spec_from_file_location("parity_cases", FOLDER / "parity_cases.py")
    assert spec is not None and spec.loader is not None
    cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cases)
    results = {}
    for name, case in cases.CASES.items():
        with jax.enable_x64(case.x64), jax.threefry_partitionable(case.partitionable):
            value = np.asarray(case.draw(jax.random, jax.vmap))
        results[name] = value.view(np.uint16) if value.dtype.name == "bfloat16" else value
    for name, draw in cases.INITIALIZERS.items():
        results[f"initializers {name}"] = np.asarray(draw(jax.nn.initializers, jax.random.key(8)))
    np.savez_compressed(FOLDER / "parity.npz", **results)
    print(f"{len(results)} cases")


if __name__ == "__main__":
    main()
