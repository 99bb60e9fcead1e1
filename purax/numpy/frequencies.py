# SPDX-License-Identifier: Apache-2.0
"""Frequencies of Fourier transforms, and their order: what `purax.numpy.fft` offers of them.

Frequencies have the default float dtype; shifted arrays keep dtype and shape.

Parameters
----------
n : int
    Number of samples.
d : float
    Distance between them.
dtype : dtype, optional
    Float by default.
device : Device, optional
    Where the result lies.
x : array
axes : int or sequence of int, optional
    All by default.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax.numpy.arithmetic import divide, multiply
from purax.numpy.creation import asarray
from purax.numpy.promotion import as_operand, check_arraylike
from purax.numpy.shape import roll

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _frequencies(name: str, n: int, d: Any, dtype: Any, device: Any, half: bool) -> Any:
    if isinstance(n, (list, tuple)) or not hasattr(n, "__index__"):
        raise ValueError(f"{name}: n is a number of samples, an int, got {n!r}")
    if isinstance(d, (list, tuple)):
        raise ValueError(f"{name}: d is one distance for all samples, got {d!r}")
    n = operator.index(n)
    dtype = dtypes.default_float() if dtype is None else dtypes.named(dtype)
    places = np.arange(n // 2 + 1) if half else np.fft.ifftshift(np.arange(n) - n // 2)
    return divide(asarray(places, dtype=dtype, device=device), multiply(asarray(d, dtype=dtype), n))


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Frequencies of the entries of `fft`, float[n]: k / (n d) for k = 0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1.

    Raises
    ------
    ValueError
        `n` is no int, or `d` no scalar.
    """
    return _frequencies("fftfreq", n, d, dtype, device, False)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Frequencies of the entries of `rfft`, float[n // 2 + 1]: k / (n d) for k = 0, 1, ..., n // 2.

    Raises
    ------
    ValueError
        `n` is no int, or `d` no scalar.
    """
    return _frequencies("rfftfreq", n, d, dtype, device, True)


def _shifted(name: str, x: Any, axes: Any, inverse: bool) -> Any:
    check_arraylike(name, x)
    x = as_operand(x)
    axes = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    steps = tuple(-(x.shape[a] // 2) if inverse else x.shape[a] // 2 for a in axes)
    return roll(x, steps, tuple(axes))


def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Move frequency zero to the middle of axes: an array like x.

    Examples
    --------
    >>> pnp.fft.fftshift(pnp.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _shifted("fft.fftshift", x, axes, False)


def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Inverse of `fftshift`: an array like x."""
    return _shifted("fft.ifftshift", x, axes, True)
