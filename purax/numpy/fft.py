# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms with NumPy's names: `purax.numpy.fft`.

Results are complex, those of inverses of real transforms and of `hfft` real, of the precision of the operand's dtype; integers count as
the default float.

Parameters
----------
a : inexact[...]
    Real for `rfft`, `rfftn`, `rfft2` and `ihfft`.
n : int, optional
    Number of points along the axis. The operand is cut or padded with zeros to as many, or, where it is half a spectrum, to n // 2 + 1.
axis : int
    The last one by default.
s : sequence of int, optional
    Numbers of points along the axes, as n.
axes : sequence of int, optional
    By default all, or the last len(s); two for the functions of two axes.
norm : "backward", "ortho" or "forward", optional
    The inverse is divided by the number of points (the default), both by its root, or the transform by it.

Raises
------
ShapeError
    An axis that does not exist or is named twice, a number of points below 1, or not one for each axis.
ValueError
    Another number of axes than the function has, or an unknown norm.
DTypeError
    Complex data where real ones are needed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.numpy.arithmetic import multiply
from purax.numpy.elementwise import conj
from purax.numpy.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from purax.numpy.promotion import as_operand, check_arraylike
from purax.numpy.shape import transpose
from purax.primitives import fft as transforms
from purax.primitives import joining
from purax.primitives.fft import FftType

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _factor(lengths: Sequence[int], kind: FftType, norm: str | None) -> float:
    """What XLA's result (divided by the number of points in the inverses) must be multiplied with."""
    count = math.prod(lengths)
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    if norm in (None, "backward"):
        return 1.0
    if norm == "ortho":
        return math.sqrt(count) if inverse else 1 / math.sqrt(count)
    if norm == "forward":
        return float(count) if inverse else 1 / count
    raise ValueError(f"norm is None, 'backward', 'ortho' or 'forward', got {norm!r}")


def _resized(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """`x` cut or padded with zeros at the end of `axes`."""
    config = [(0, 0, 0)] * x.ndim
    for axis, size in zip(axes, sizes, strict=True):
        config[axis] = (0, size - x.shape[axis], 0)
    return x if all(c == (0, 0, 0) for c in config) else joining.pad(x, 0, config)


def _float(dtype: Any) -> Any:
    """The dtype of floats that data of a real dtype are transformed as."""
    return dtype if dtypes.is_float(dtype) else dtypes.default_float()


def _transform(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    check_arraylike(name, a)
    a = as_operand(a)
    if kind is FftType.RFFT and dtypes.is_complex(a.aval.dtype):
        raise errors.DTypeError(f"{name} takes real data, got {a.aval.dtype}; use fft")
    if kind is FftType.RFFT:
        a = a.astype(_float(a.aval.dtype))
    if s is not None:
        s = tuple(operator.index(n) for n in s)
    if axes is None:
        if s is not None and len(s) > a.ndim:
            raise errors.ShapeError(f"{name}: an array of {a.ndim} axes cannot have the {len(s)} lengths {s}")
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    found = []
    for axis in axes:
        if not -a.ndim <= axis < a.ndim:
            raise errors.ShapeError(f"{name}: the array has {a.ndim} axes, and axis {axis} is none of them")
        found.append(axis % a.ndim)
    if len(set(found)) != len(found):
        raise errors.ShapeError(f"{name} transforms each axis once, got axes {tuple(axes)}")
    if not found:
        return a
    if s is not None and len(s) != len(found):
        raise errors.ShapeError(f"{name}: {len(found)} axes and {len(s)} lengths were given")
    lengths = [a.shape[axis] for axis in found] if s is None else list(s)
    if kind is FftType.IRFFT and s is None:
        lengths[-1] = 2 * (a.shape[found[-1]] - 1)
    if s is None and not a.size and kind in (FftType.FFT, FftType.IFFT):
        return a.astype(a.dtype if dtypes.is_complex(a.dtype) else dtypes.to_complex(_float(a.dtype)))
    if any(n < 1 for n in lengths):
        raise errors.ShapeError(f"{name}: lengths must be positive, got {tuple(lengths)}")
    factor = _factor(lengths, kind, norm)
    sizes = [*lengths[:-1], lengths[-1] // 2 + 1] if kind is FftType.IRFFT else lengths
    a = _resized(a, found, sizes)
    order = [*(axis for axis in range(a.ndim) if axis not in found), *found]
    moved = order != list(range(a.ndim))
    out = transforms.fft(transpose(a, order) if moved else a, kind, lengths)
    out = transpose(out, np.argsort(order).tolist()) if moved else out
    return out if factor == 1.0 else multiply(out, np.asarray(factor, dtypes.real_dtype(out.dtype)))


def _single(name: str, kind: FftType, a: Any, n: Any, axis: Any, norm: str | None) -> Any:
    if isinstance(axis, (tuple, list)):
        raise ValueError(f"purax.numpy.fft.{name} takes one axis, use {name}n for several. Got axis = {axis!r}.")
    return _transform(f"fft.{name}", kind, a, None if n is None else (n,), (operator.index(axis),), norm)


def _plane(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    if len(axes) != 2:
        raise ValueError(f"purax.numpy.fft.{name} takes two axes. Got axes = {axes!r}.")
    return _transform(f"fft.{name}", kind, a, s, axes, norm)


# --- one axis -----------------------------------------------------------------------------------------------------------------


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Complex transform along one axis.

    Shapes: inexact[..., m, ...] -> complex[..., n, ...]; n is m by default.

    Examples
    --------
    >>> pnp.fft.fft(pnp.array([1.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _single("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `fft`.

    Shapes: inexact[..., m, ...] -> complex[..., n, ...]; n is m by default.
    """
    return _single("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Transform of real data, without the entries that the others imply.

    Shapes: real[..., m, ...] -> complex[..., n // 2 + 1, ...]; n is m by default.
    """
    return _single("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `rfft`.

    Shapes: inexact[..., n // 2 + 1, ...] -> float[..., n, ...]; n is 2 (m - 1) by default, for m entries.
    """
    return _single("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Real spectrum of data that are Hermitian along the axis and given by their first half.

    Shapes: inexact[..., n // 2 + 1, ...] -> float[..., n, ...]; n is 2 (m - 1) by default, for m entries.
    """
    check_arraylike("fft.hfft", a)
    return _single("irfft", FftType.IRFFT, conj(a), n, axis, _swapped(norm))


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `hfft`.

    Shapes: real[..., m, ...] -> complex[..., n // 2 + 1, ...]; n is m by default.
    """
    return conj(_single("rfft", FftType.RFFT, a, n, axis, _swapped(norm)))


def _swapped(norm: str | None) -> str | None:
    """The norm of the opposite direction."""
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


# --- several axes -------------------------------------------------------------------------------------------------------------


def fftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """Complex transform over several axes.

    Shapes: inexact[...] -> complex[...].
    """
    return _transform("fft.fftn", FftType.FFT, a, s, axes, norm)


def ifftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """Inverse of `fftn`.

    Shapes: inexact[...] -> complex[...].
    """
    return _transform("fft.ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """Transform of real data over several axes, the last of which is halved.

    Shapes: real[..., m] -> complex[..., s[-1] // 2 + 1].
    """
    return _transform("fft.rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """Inverse of `rfftn`.

    Shapes: inexact[..., m] -> float[..., s[-1]]; s[-1] is 2 (m - 1) by default.
    """
    return _transform("fft.irfftn", FftType.IRFFT, a, s, axes, norm)


def fft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """`fftn` over two axes.

    Shapes: inexact[...] -> complex[...].
    """
    return _plane("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """`ifftn` over two axes.

    Shapes: inexact[...] -> complex[...].
    """
    return _plane("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """`rfftn` over two axes.

    Shapes: real[..., m] -> complex[..., s[-1] // 2 + 1].
    """
    return _plane("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """`irfftn` over two axes.

    Shapes: inexact[..., m] -> float[..., s[-1]]; s[-1] is 2 (m - 1) by default.
    """
    return _plane("irfft2", FftType.IRFFT, a, s, axes, norm)
