# SPDX-License-Identifier: Apache-2.0
"""Data sets that come with purax."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from purax.errors import DamagedFileError

__all__ = ["Digits", "load_digits"]

_FOLDER = Path(__file__).parent


class Digits(NamedTuple):
    """Handwritten digits as images in [0, 1], float32[n, 8, 8, 1], and labels from 0 to 9, int32[n]."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits() -> Digits:
    """Load the 1,797 handwritten digits, with a fixed fifth held out for testing.

    Returns
    -------
    Digits
        1,438 training images and 359 test images, in the order of the source. See `DIGITS.md`: UCI
        Optical Recognition of Handwritten Digits, CC BY 4.0.

    Raises
    ------
    DamagedFileError
        If the installed data cannot be read.

    Examples
    --------
    >>> digits = load_digits()
    >>> digits.train_images.shape[1:], str(digits.train_labels.dtype)
    ((8, 8, 1), 'int32')
    """
    path = _FOLDER / "digits.npz"
    try:
        with np.load(path) as archive:
            images, labels = archive["images"], archive["labels"]
        held_out = np.asarray(json.loads((_FOLDER / "digits_split.json").read_text())["held_out"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DamagedFileError(f"the digits in {_FOLDER} cannot be read ({error}); install purax again") from error
    test = np.zeros(len(labels), bool)
    test[held_out] = True
    scaled = (images.astype(np.float32) / np.float32(16))[..., None]
    classes = labels.astype(np.int32)
    return Digits(scaled[~test], classes[~test], scaled[test], classes[test])
