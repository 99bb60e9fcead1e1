# SPDX-License-Identifier: Apache-2.0
"""Resampling of images: `purax.image`. Along each axis the image is multiplied by a matrix of weights of a kernel."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.core.trace import aval_of
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """Kernels of `resize`.

    NEAREST takes the nearest element, LINEAR a triangle, CUBIC Keys' cubic (a = -0.5), LANCZOS3 and LANCZOS5 windowed sincs, AREA the
    mean over what a pixel of the result covers. CUBIC_PYTORCH is CUBIC with antialiasing; without, it takes a = -0.75 and repeats
    the border.
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name such as "bilinear"."""
        found = _NAMES.get(s)
        if found is None:
            raise ValueError(f'Unknown resize method "{s}"')
        return found


_NAMES = {
    "nearest": ResizeMethod.NEAREST, "area": ResizeMethod.AREA, "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    "lanczos3": ResizeMethod.LANCZOS3, "lanczos5": ResizeMethod.LANCZOS5,
}  # fmt: skip


def _triangle(xp: Any, x: Any) -> Any:
    return xp.maximum(0, 1 - x)


def _cubic(a: float) -> Callable[[Any, Any], Any]:
    def kernel(xp: Any, x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return xp.where(x < 1, near, xp.where(x < 2, far, 0))

    return kernel


def _lanczos(radius: float) -> Callable[[Any, Any], Any]:
    def kernel(xp: Any, x: Any) -> Any:
        small = x < 1e-3
        safe = xp.where(small, 1, x)
        value = radius * xp.sin(math.pi * safe) * xp.sin(math.pi * safe / radius) / (math.pi * safe) ** 2
        return xp.where(x > radius, 0, xp.where(small, 1, value))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle, ResizeMethod.CUBIC: _cubic(-0.5), ResizeMethod.CUBIC_PYTORCH: _cubic(-0.5),
    ResizeMethod.LANCZOS3: _lanczos(3.0), ResizeMethod.LANCZOS5: _lanczos(5.0),
}  # fmt: skip


def _weights(
    xp: Any, size: int, new_size: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool, dtype: Any
) -> Any:
    """The matrix [size, new_size] of weights, for static (`xp` NumPy) or traced (purax.numpy) scale and translation."""
    step = 1 / scale
    places = (np.arange(new_size) + 0.5).astype(dtype)[None, :] * step - translation * step - 0.5
    index = np.arange(size).astype(dtype)[:, None]
    if method is ResizeMethod.AREA:
        low, high = places + 0.5 - step / 2, places + 0.5 + step / 2
        weights = xp.maximum(0, xp.minimum(index + 1, high) - xp.maximum(index, low))
    elif method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        kernel, first = _cubic(-0.75), xp.floor(places) - 1
        weights = xp.zeros((size, new_size), dtype)
        for offset in range(4):
            source = first + offset
            weights = weights + xp.where(xp.clip(source, 0, size - 1) == index, kernel(xp, xp.abs(places - source)), 0)
    else:
        width = xp.maximum(step, 1) if antialias else 1
        weights = _KERNELS[method](xp, xp.abs(places - index) / width)
    total = xp.sum(weights, axis=0, keepdims=True)
    large = xp.abs(total) > 1000 * float(dtypes.finfo(np.float32).eps)
    weights = xp.where(large, weights / xp.where(large, total, 1), 0)
    return xp.where((places >= -0.5) & (places <= size - 0.5), weights, 0)


def _apply(image: Any, matrices: dict[int, Any], precision: Any) -> Any:
    """The image multiplied by a matrix along each of its axes; in float32 for narrower floats."""
    dtype = image.dtype
    wide = np.dtype(np.float32) if dtype.itemsize < 4 and dtypes.is_float(dtype) else dtype
    image = image.astype(wide)
    for axis, matrix in matrices.items():
        image = pnp.moveaxis(
            pnp.tensordot(image, pnp.asarray(matrix, wide), ((axis,), (0,)), precision=precision), -1, axis
        )
    return image.astype(dtype)


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def _shape(image: Any, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(operator.index(n) for n in shape)
    own = aval_of(image).shape
    if len(sizes) != len(own):
        raise ValueError(f"the new shape {sizes} must have as many axes as the image, whose shape is {own}")
    return sizes


def scale_and_translate(
    image: Any, shape: Sequence[int], spatial_dims: Sequence[int], scale: Any, translation: Any, method: str | ResizeMethod,
    antialias: bool = True, precision: Any = "highest",
) -> Any:  # fmt: skip
    """An image, scaled and moved; 0 where the result shows what lies outside.

    Parameters
    ----------
    image : array
        Integers become floats.
    shape : sequence of int
        Of the result; equal to that of the image but for `spatial_dims`.
    spatial_dims : sequence of int
    scale, translation : float[len(spatial_dims)]
        A position x of the image comes to x * scale + translation.
    method : str or ResizeMethod
        Not "nearest".
    antialias : bool
        Widen the kernel where the image shrinks.
    precision
        Of the products, as in `purax.lax.dot`.

    Returns
    -------
    array of `shape`

    Raises
    ------
    ValueError
        The method "nearest", or `shape` with another number of axes.
    """
    check_arraylike("image.scale_and_translate", image)
    sizes, method = _shape(image, shape), _method(method)
    if method is ResizeMethod.NEAREST:
        raise ValueError(
            "scale_and_translate has no method NEAREST, which is not smooth in scale and translation; use LINEAR, or resize"
        )
    image, scale, translation = (promote_dtypes_inexact(pnp.asarray(x))[0] for x in (image, scale, translation))
    axes = [operator.index(d) % image.ndim for d in spatial_dims]
    dtype = scale.dtype if scale.dtype.itemsize >= 4 else np.dtype(np.float32)
    matrices = {
        axis: _weights(
            pnp,
            image.shape[axis],
            sizes[axis],
            scale[i].astype(dtype),
            translation[i].astype(dtype),
            method,
            antialias,
            dtype,
        )
        for i, axis in enumerate(axes)
    }
    return _apply(image, matrices, precision)


def resize(
    image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True, precision: Any = "highest"
) -> Any:
    """An image, resampled to another shape.

    Parameters
    ----------
    image : array
        Integers become floats, except by "nearest".
    shape : sequence of int
        As many axes as the image; those whose size stays are left alone.
    method : str or ResizeMethod
        "nearest", "linear", "cubic", "lanczos3", "lanczos5", "area", "cubic-pytorch" or a synonym such as "bilinear".
    antialias : bool
        Widen the kernel where the image shrinks; no effect on "nearest" and "area".
    precision
        Of the products, as in `purax.lax.dot`.

    Returns
    -------
    array of `shape`
    """
    check_arraylike("image.resize", image)
    sizes, method = _shape(image, shape), _method(method)
    image = pnp.asarray(image)
    changed = [i for i, (old, new) in enumerate(zip(image.shape, sizes, strict=True)) if old != new]
    if method is ResizeMethod.NEAREST:
        for axis in changed:
            old, new = image.shape[axis], sizes[axis]
            image = pnp.take(image, (2 * np.arange(new) + 1) * old // (2 * new), axis=axis)
        return image
    (image,) = promote_dtypes_inexact(image)
    matrices = {}
    for axis in changed:
        old, new = image.shape[axis], sizes[axis]
        scale = np.float64(new / old) if old and new else np.float64(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            matrices[axis] = _weights(np, old, new, scale, 0.0, method, antialias, np.float64)
    return _apply(image, matrices, precision)
