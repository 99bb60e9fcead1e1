# SPDX-License-Identifier: Apache-2.0
"""Cosine transforms, by complex Fourier transforms of the reordered samples (Makhoul, 1980).

Results have the inexact dtype of the operand.

Parameters
----------
x : array[...]
    Complex numbers are transformed part by part.
type : 2
    The type of the transform; others raise NotImplementedError.
norm : "backward", "ortho" or "forward", optional
    As in `dct`; the inverse undoes the same.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.numpy import fft as transforms
from purax.numpy.promotion import promote_inexact
from purax.primitives.complex import complex as make_complex

__all__ = ["dct", "dctn", "idct", "idctn"]


def _operand(name: str, x: Any, type: int) -> Any:
    if type != 2:
        raise NotImplementedError(f"Only DCT type 2 is implemented, got type {type}")
    (x,) = promote_inexact(name, x)
    return x


def _resized(x: Any, n: int | None, axis: int) -> Any:
    """`x` with the axis last, cut or padded with zeros to n."""
    x = pnp.moveaxis(x, axis, -1)
    if n is None:
        return x
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of data points ({n}) specified")
    kept = x[..., :n]
    return pnp.pad(kept, [(0, 0)] * (x.ndim - 1) + [(0, n - kept.shape[-1])])


def _row(values: np.ndarray, like: Any, turned: bool = False) -> Any:
    """Factors along the last axis of an array."""
    dtype = dtypes.to_complex(like.dtype) if turned else like.dtype
    return pnp.asarray(values.reshape((1,) * (like.ndim - 1) + values.shape), dtype)


def _factors(n: int, norm: str | None) -> np.ndarray:
    """Twiddles of the samples times what `norm` asks for."""
    turned = np.exp(-0.5j * np.pi * np.arange(n) / n)
    if norm in (None, "backward"):
        scale = np.full(n, 2.0)
    elif norm == "forward":
        scale = np.full(n, 1.0 / n)
    elif norm == "ortho":
        scale = np.full(n, math.sqrt(2 / n))
        scale[0] = math.sqrt(1 / n)
    else:
        raise ValueError(f"Invalid norm value {norm!r}; should be 'backward', 'ortho' or 'forward'")
    return turned * scale


def _of_parts(transform: Any) -> Any:
    """A real transform, of real and imaginary parts apart."""

    def one(x: Any, n: int | None, axis: int, norm: str | None) -> Any:
        if dtypes.is_complex(x.dtype):
            return make_complex(transform(pnp.real(x), n, axis, norm), transform(pnp.imag(x), n, axis, norm))
        return transform(x, n, axis, norm)

    return one


@_of_parts
def _dct(x: Any, n: int | None, axis: int, norm: str | None) -> Any:
    x = _resized(x, n, axis)
    n = x.shape[-1]
    ordered = pnp.concatenate([x[..., ::2], pnp.flip(x[..., 1::2], -1)], axis=-1)
    out = pnp.real(transforms.fft(ordered, axis=-1) * _row(_factors(n, norm), x, True))
    return pnp.moveaxis(out, -1, axis)


@_of_parts
def _idct(x: Any, n: int | None, axis: int, norm: str | None) -> Any:
    x = _resized(x, n, axis)
    n = x.shape[-1]
    # the spectrum is (x_k - i x_{n-k}) / factor, x_n = 0
    mirrored = pnp.concatenate([pnp.zeros_like(x[..., :1]), pnp.flip(x[..., 1:], -1)], axis=-1)
    factors = _factors(n, norm)
    scale = np.abs(factors)
    spectrum = make_complex(x / _row(scale, x), -mirrored / _row(np.roll(scale[::-1], 1), x))
    samples = pnp.real(transforms.ifft(spectrum * _row(scale / factors, x, True), axis=-1))
    half = (n + 1) // 2
    place = np.empty(n, np.int64)
    place[::2], place[1::2] = np.arange(half), np.arange(n - 1, half - 1, -1)
    return pnp.moveaxis(pnp.take(samples, place, axis=-1), -1, axis)


def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Discrete cosine transform of type 2.

    Parameters
    ----------
    x : inexact[...]
    type : 2
    n : int, optional
        The axis is cut or padded with zeros to this length.
    axis : int
    norm : "backward" (default), "ortho" or "forward"
        Divide by nothing; make the transform orthogonal; divide by 2 n.

    Returns
    -------
    inexact[...]
    """
    return _dct(_operand("dct", x, type), n, axis, norm)


def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `dct` with the same `norm`.

    Parameters
    ----------
    n : int, optional
        Length along the axis, which is cut or padded with zeros to it.
    axis : int

    Returns
    -------
    inexact[..., n, ...]
    """
    return _idct(_operand("idct", x, type), n, axis, norm)


def _along(one: Any, x: Any, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None) -> Any:
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = list(axes)
    if s is not None and len(s) != len(axes):
        raise ValueError(f"each axis has one length, got lengths {s} for axes {axes}")
    if s is not None and len(s) > x.ndim:
        raise ValueError(f"Input array has {x.ndim} axes, too few for {len(s)} lengths")
    for i, axis in enumerate(axes):
        x = one(x, None if s is None else s[i], axis, norm)
    return x


def dctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Any:
    """`dct` along several axes (default: all, or the last len(s)), with lengths s.

    Parameters
    ----------
    s : sequence of int, optional
        Lengths along the axes, which are cut or padded with zeros to them.
    axes : sequence of int, optional

    Returns
    -------
    inexact array with the lengths s

    Raises
    ------
    ValueError
        Lengths that are not one for each axis.
    """
    return _along(_dct, _operand("dctn", x, type), s, axes, norm)


def idctn(
    x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Any:
    """The inverse of `dctn`.

    Parameters
    ----------
    s : sequence of int, optional
        Lengths along the axes, which are cut or padded with zeros to them.
    axes : sequence of int, optional
        All, or the last len(s).

    Returns
    -------
    inexact array with the lengths s

    Raises
    ------
    ValueError
        Lengths that are not one for each axis.
    """
    return _along(_idct, _operand("idctn", x, type), s, axes, norm)
