# SPDX-License-Identifier: Apache-2.0
"""Initial values of parameters: functions `(key, shape, dtype) -> array`, and functions that make such functions.

Parameters
----------
key : PRNG key
    Equal keys draw equal numbers.
shape : sequence of int
    That of the result.
dtype : floating or complex dtype, optional
    That of the result, the default float if None. What an initializer was made with is its default; a call may name another.
out_sharding : Sharding or PartitionSpec, optional
    Where the result lies.
in_axis, out_axis, batch_axis : int or sequence of int
    See `variance_scaling`.

Returns
-------
Initializer, or array of the shape and dtype
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from purax import dtypes, random
from purax import numpy as pnp
from purax.primitives import shape as shapes
from purax.random.draw import placed

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal",
    "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip


@runtime_checkable
class Initializer(Protocol):
    """A function `(key, shape, dtype=..., out_sharding=None) -> array`."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        """The initial value."""
        raise NotImplementedError


def _dtype(dtype: Any) -> Any:
    return dtypes.default_float() if dtype is None else dtypes.named(dtype)


def _number(value: Any, dtype: Any) -> Any:
    """A number, rounded to `dtype` once."""
    return pnp.asarray(value, dtype)


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Zeros; the key is not used."""
    return placed(pnp.zeros(shape, _dtype(dtype)), out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Ones; the key is not used."""
    return placed(pnp.ones(shape, _dtype(dtype)), out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Initializer to a value that broadcasts to the shape.

    Parameters
    ----------
    value : number or array
    dtype : dtype, optional

    Returns
    -------
    Initializer
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        return placed(pnp.full(shape, value, _dtype(dtype)), out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Initializer to uniform numbers from [0, scale).

    Parameters
    ----------
    scale : float
    dtype : dtype, optional

    Returns
    -------
    Initializer
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        dtype = _dtype(dtype)
        return random.uniform(key, shape, dtype, out_sharding=out_sharding) * _number(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Initializer to normal numbers with mean 0.

    Parameters
    ----------
    stddev : float
        Standard deviation, of complex numbers that of both parts together.
    dtype : dtype, optional

    Returns
    -------
    Initializer
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        dtype = _dtype(dtype)
        return random.normal(key, shape, dtype, out_sharding=out_sharding) * _number(stddev, dtype)

    return init


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """Initializer to normal numbers between `lower` and `upper`, times `stddev`.

    Parameters
    ----------
    stddev : float
        The factor; the cut makes the deviation of the result smaller (0.88 of it between -2 and 2).
    lower, upper : float
        Limits before `stddev` is multiplied in.
    dtype : floating dtype, optional

    Returns
    -------
    Initializer
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        dtype = _dtype(dtype)
        drawn = random.truncated_normal(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return drawn * _number(stddev, dtype)

    return init


def _size(shape: Sequence[int], axis: Any) -> int:
    return shape[axis] if isinstance(axis, int) else math.prod(shape[i] for i in axis)


def _fans(shape: tuple[int, ...], in_axis: Any, out_axis: Any, batch_axis: Any) -> tuple[float, float]:
    """How many inputs an output has, and how many outputs an input."""
    if in_axis == -2 and len(shape) <= 1:
        raise ValueError(
            f"weights of shape {shape} have no axis -2 that inputs come from: "
            "name the axis by in_axis, or give the weights two axes"
        )
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    field = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * field, outputs * field


def _disc(key: Any, shape: tuple[int, ...], dtype: Any, upper: float | None) -> Any:
    """Complex numbers of random direction: uniform in a disc with mean square 1, or normal and no longer than `upper`."""
    key_radius, key_angle = random.split(key)
    part = dtypes.real_dtype(dtype)
    drawn = random.uniform(key_radius, shape, part)
    if upper is None:
        radius = pnp.sqrt(2 * drawn).astype(dtype)
    else:
        share = (1 - pnp.exp(_number(-(upper**2), dtype))) * drawn.astype(dtype)
        radius = pnp.sqrt(-pnp.log(1 - share))
    angle = (2 * np.pi * random.uniform(key_angle, shape, part)).astype(dtype)
    return radius * pnp.exp(1j * angle)


_MODES = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: (fan_in * fan_out) ** 0.5,
}


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Any = -2,
    out_axis: Any = -1,
    batch_axis: Any = (),
    dtype: Any = None,
) -> Initializer:
    """Initializer with variance `scale / n`.

    Parameters
    ----------
    scale : float
    mode : "fan_in", "fan_out", "fan_avg" or "fan_geo_avg"
        What n is: inputs of an output, outputs of an input, or the arithmetic or geometric mean of both.
    distribution : "truncated_normal", "normal" or "uniform"
    in_axis, out_axis, batch_axis : int or sequence of int
        Axes of inputs and outputs, and axes that count separate layers.
    dtype : floating or complex dtype, optional

    Returns
    -------
    Initializer

    Raises
    ------
    ValueError
        (By the initializer.) Unknown mode or distribution, or a shape without the axes.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        shape, dtype = shapes.canonical_shape(shape), _dtype(dtype)
        fans = _fans(shape, in_axis, out_axis, batch_axis)
        if mode not in _MODES:
            raise ValueError(f"variance_scaling: mode must be one of {sorted(_MODES)}, got {mode!r}")
        variance = _number(scale / _MODES[mode](*fans), dtype)
        real = not dtypes.is_complex(dtype)
        if distribution == "truncated_normal":
            # Divided by the deviation that is left after the cut at two deviations.
            stddev = pnp.sqrt(variance) / _number(0.87962566103423978 if real else 0.95311164380491208, dtype)
            drawn = random.truncated_normal(key, -2, 2, shape, dtype) if real else _disc(key, shape, dtype, 2.0)
            return placed(drawn * stddev, out_sharding)
        if distribution == "normal":
            return placed(random.normal(key, shape, dtype) * pnp.sqrt(variance), out_sharding)
        if distribution == "uniform":
            if real:
                return placed(random.uniform(key, shape, dtype, -1) * pnp.sqrt(3 * variance), out_sharding)
            return placed(_disc(key, shape, dtype, None) * pnp.sqrt(variance), out_sharding)
        raise ValueError(
            f"variance_scaling: distribution must be normal, truncated_normal or uniform, got {distribution!r}"
        )

    return init


def glorot_uniform(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1.0, "fan_avg", "uniform")` (Glorot, Bengio, 2010)."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1.0, "fan_avg", "truncated_normal")` (Glorot, Bengio, 2010)."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1.0, "fan_in", "uniform")` (LeCun, Bottou, Orr, Mueller, 1998)."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1.0, "fan_in", "truncated_normal")` (LeCun, Bottou, Orr, Mueller, 1998)."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(2.0, "fan_in", "uniform")` (He, Zhang, Ren, Sun, 2015)."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(2.0, "fan_in", "truncated_normal")` (He, Zhang, Ren, Sun, 2015)."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Initializer to `scale` times a matrix with orthonormal columns or rows, whichever are fewer (Saxe et al., 2014).

    Parameters
    ----------
    scale : float
    column_axis : int
        Axis of the columns; all others together are the rows.
    dtype : floating or complex dtype, optional

    Returns
    -------
    Initializer

    Raises
    ------
    ValueError
        (By the initializer.) A shape with fewer than two axes.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        shape, dtype = shapes.canonical_shape(shape), _dtype(dtype)
        if len(shape) < 2:
            raise ValueError(f"orthogonal makes matrices, and the shape {shape} has fewer than two axes")
        if 0 in shape:
            return placed(pnp.zeros(shape, dtype), out_sharding)
        axis = shapes.canonical_axis(column_axis, len(shape))
        rest = (*shape[:axis], *shape[axis + 1 :])
        drawn = random.orthogonal(key, math.prod(rest), (), dtype, shape[axis])
        drawn = pnp.moveaxis(shapes.reshape(drawn, (*rest, shape[axis])), -1, axis)
        return placed(_number(scale, dtype) * drawn, out_sharding)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Initializer of convolutions that keep norms: an orthogonal matrix in the middle, zeros around (Xiao et al., 2018).

    For shapes (..., inputs, outputs) with one to three axes of space and no more inputs than outputs.

    Parameters
    ----------
    scale : float
    column_axis : int
        Of the two last axes, that of the columns of the orthogonal matrix.
    dtype : floating or complex dtype, optional

    Returns
    -------
    Initializer

    Raises
    ------
    ValueError
        (By the initializer.) A shape with fewer than three or more than five axes, or with more inputs than outputs.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        shape, dtype = shapes.canonical_shape(shape), _dtype(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError(
                f"delta_orthogonal makes kernels of one to three spatial axes, and the shape {shape} has {len(shape)} axes in all"
            )
        if shape[-1] < shape[-2]:
            raise ValueError(
                f"delta_orthogonal keeps lengths, so it needs as many outputs as inputs or more, got shape {shape}"
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple((size - 1) // 2 for size in shape[:-2])
        return placed(pnp.zeros(shape, dtype).at[middle].set(matrix), out_sharding)

    return init
