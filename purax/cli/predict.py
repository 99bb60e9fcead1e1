# SPDX-License-Identifier: Apache-2.0
"""`purax predict`: label images, and show them."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from purax.data.source import load_digits
from purax.errors import DamagedFileError, IndexOutOfBoundsError, ShapeError
from purax.train.digits import load_model, predict, to_pixels

__all__ = ["draw", "run"]

_INK = " .:-=+*#%@"
_SHOWN = 5


def draw(image: np.ndarray) -> list[str]:
    """Draw an image with letters.

    Parameters
    ----------
    image : [8, 8]
        Pixels from 0 to 1.

    Returns
    -------
    list of str
        One line for each row, two letters for each pixel.
    """
    levels = np.clip(np.round(image * (len(_INK) - 1)), 0, len(_INK) - 1).astype(int)
    return ["".join(_INK[level] * 2 for level in row) for row in levels]


def _read_images(path: str) -> np.ndarray:
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DamagedFileError(f"{path} is no NumPy array file ({error}); make one by numpy.save") from error
    if not isinstance(loaded, np.ndarray):
        raise DamagedFileError(f"{path} holds several arrays; save one array [n, 8, 8] by numpy.save")
    return loaded


def run(options: argparse.Namespace) -> int:
    """Label images as the options say.

    Parameters
    ----------
    options : argparse.Namespace
        Of `purax predict`.

    Returns
    -------
    int
        0.

    Raises
    ------
    IndexOutOfBoundsError
        If there is no image of an index.
    ShapeError
        If there are no images at all.
    """
    params, _ = load_model(options.model)
    labels: np.ndarray | None = None
    if options.images is None:
        digits = load_digits()
        images, labels = to_pixels(digits.test_images), digits.test_labels
    else:
        images = to_pixels(_read_images(options.images))
    count = len(images)
    if not count:
        raise ShapeError(f"{options.images} holds no images; save an array [n, 8, 8] by numpy.save")
    indices = list(range(count)) if options.all else options.index or list(range(min(_SHOWN, count)))
    wrong = [index for index in indices if not -count <= index < count]
    if wrong:
        raise IndexOutOfBoundsError(f"there is no image {wrong[0]}; there are {count}, counted from 0")
    chosen = np.asarray(indices, int)
    probabilities = predict(params, images[chosen])
    answers = probabilities.argmax(axis=-1)
    if options.all:
        for answer in answers:
            print(answer)
        return 0
    for index, answer, row in zip(indices, answers, probabilities, strict=True):
        print("\n".join(draw(images[index])))
        truth = "" if labels is None else f" (right: {labels[index]})"
        print(f"image {index}: {answer}, {100 * row[answer]:.1f} % sure{truth}\n")
    return 0
