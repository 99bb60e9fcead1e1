# SPDX-License-Identifier: Apache-2.0
"""Batches of data in host memory: shuffled by seed, cut by NumPy, so that no device compiles anything for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from purax import tree

__all__ = ["batches", "epoch_order", "number_of_batches", "shift_images"]


def epoch_order(size: int, seed: int, epoch: int = 0) -> np.ndarray:
    """Give the order of the examples in one epoch.

    Parameters
    ----------
    size : int
        How many examples there are.
    seed : int
        The same seed and epoch give the same order.
    epoch : int
        Each epoch has its own order.

    Returns
    -------
    int64[size]
        A permutation.
    """
    return np.random.default_rng([seed, epoch]).permutation(size)


def number_of_batches(size: int, batch_size: int, drop_remainder: bool = True) -> int:
    """Count the batches of one epoch.

    Parameters
    ----------
    size, batch_size : int
        How many examples there are, and in one batch.
    drop_remainder : bool
        Leave out a last batch that is not full.

    Returns
    -------
    int
        The number of batches.
    """
    return size // batch_size if drop_remainder else -(-size // batch_size)


def batches(
    data: Any, batch_size: int, *, seed: int | None = None, epoch: int = 0, drop_remainder: bool = True
) -> Iterator[Any]:
    """Go once through data in batches.

    Parameters
    ----------
    data : tree of arrays [n, ...]
        All leaves have the same first axis.
    batch_size : int
        How many examples make a batch, at least 1.
    seed : int, optional
        Shuffle with this seed; the order of the data if left out.
    epoch : int
        Shuffles differ from epoch to epoch.
    drop_remainder : bool
        Leave out a last batch that is not full: then all batches have one shape, and one program fits them all.

    Returns
    -------
    iterator of trees of arrays [batch_size, ...]
        Copies, never views.

    Raises
    ------
    ValueError
        If the first axes differ, batch_size is below 1, or no full batch can be made.
    """
    leaves = [np.asarray(leaf) for leaf in tree.leaves(data)]
    sizes = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if len(sizes) != 1 or None in sizes:
        raise ValueError(f"batches: all arrays need one first axis, got shapes {[leaf.shape for leaf in leaves]}")
    size = leaves[0].shape[0]
    if batch_size < 1:
        raise ValueError(f"batches: batch_size must be at least 1, got {batch_size}")
    if drop_remainder and size < batch_size:
        raise ValueError(
            f"batches: {size} examples do not fill one batch of {batch_size}; "
            "lower batch_size or pass drop_remainder=False"
        )
    structure = tree.structure(data)
    order = np.arange(size) if seed is None else epoch_order(size, seed, epoch)

    def generate() -> Iterator[Any]:
        for index in range(number_of_batches(size, batch_size, drop_remainder)):
            chosen = order[index * batch_size : (index + 1) * batch_size]
            yield tree.unflatten(structure, [leaf[chosen] for leaf in leaves])

    return generate()


def shift_images(images: np.ndarray, rng: np.random.Generator, pixels: int = 1) -> np.ndarray:
    """Move each image by a random number of pixels, and fill in with zeros.

    Parameters
    ----------
    images : [n, height, width, channels]
        The images.
    rng : numpy.random.Generator
        Where the shifts come from.
    pixels : int
        The largest shift along either axis.

    Returns
    -------
    array of the same shape and dtype
        The moved images.
    """
    count, height, width = images.shape[:3]
    padded = np.pad(images, ((0, 0), (pixels, pixels), (pixels, pixels), (0, 0)))
    down, right = rng.integers(0, 2 * pixels + 1, (2, count))
    rows = down[:, None, None] + np.arange(height)[None, :, None]
    columns = right[:, None, None] + np.arange(width)[None, None, :]
    moved: np.ndarray = padded[np.arange(count)[:, None, None], rows, columns]
    return moved
