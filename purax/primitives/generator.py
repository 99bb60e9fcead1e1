# SPDX-License-Identifier: Apache-2.0
"""The generator of random bits that the platform brings along: fast, and with bits that are its own business."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.primitive import Primitive, Undefined
from purax.core.trace import aval_of
from purax.primitives import elementwise, indexing, operands, resharding
from purax.primitives import shape as shapes

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_bit_generator_p", "rng_uniform", "rng_uniform_p"]


class RandomAlgorithm(enum.IntEnum):
    """Which algorithm `rng_bit_generator` runs; the default is the platform's choice."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


class RngBitGenerator(Primitive):
    """From a state, the next state and random bits."""

    reference = Undefined("its bits are the platform's choice")

    def infer(self, key: Any, *, shape: tuple[int, ...], dtype: Any, algorithm: int) -> Any:
        """The state's own aval and unsigned integers of the shape asked for."""
        if (key.shape, key.dtype.name) not in (((4,), "uint32"), ((2,), "uint64")):
            raise errors.ShapeError(f"the state must be uint32[4] or uint64[2], got {key.str_short()}")
        return key, array_aval(shape, dtype, False, key.varying)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Integers have no tangents."""
        return self.bind(*primals, **params), (None, None)

    def batch(self, axis: Any, values: Any, dims: Any, *, shape: Any, dtype: Any, algorithm: Any) -> Any:
        """One larger draw from the first state, since the generator has no mapped form: lanes differ, but not by their states."""
        states = shapes.move_batch_axis(values[0], dims[0], 0)
        first = shapes.reshape(shapes.slice_in_dim(states, 0, 1), aval_of(states).shape[1:])
        state, bits = self.bind(first, shape=(axis.size, *shape), dtype=dtype, algorithm=algorithm)
        return (indexing.dynamic_update_index_in_dim(states, state, 0, 0), bits), (0, 0)

    def lower(self, b: Any, ins: Any, outs: Any, *, shape: Any, dtype: Any, algorithm: int) -> Any:
        """`rng_bit_generator` on a state of two uint64; narrow integers are cut from uint32."""
        (state,), (state_aval, bits_aval) = ins, outs
        wide = array_aval((2,), np.dtype(np.uint64))
        words = array_aval((2, 2), np.dtype(np.uint32))
        if state_aval.dtype == np.uint32:
            state = b.reshape(state, (2, 2))
            state = b.emit(f"stablehlo.bitcast_convert {state} : ({state.hlo}) -> {wide.hlo}", wide)
        drawn = bits_aval if dtype.itemsize >= 4 else bits_aval.update(dtype=np.dtype(np.uint32))
        name = ("DEFAULT", "THREE_FRY", "PHILOX")[algorithm]
        state, bits = b.emit_many(
            f"stablehlo.rng_bit_generator {state}, algorithm = {name} : ({wide.hlo}) -> ({wide.hlo}, {drawn.hlo})",
            (wide, drawn),
        )
        if state_aval.dtype == np.uint32:
            state = b.emit(f"stablehlo.bitcast_convert {state} : ({wide.hlo}) -> {words.hlo}", words)
            state = b.reshape(state, (4,))
        return [state, b.convert(bits, dtype)]


class RngUniform(Primitive):
    """Uniform numbers between two limits from the platform's own state."""

    reference = Undefined("its numbers are the platform's choice")

    def infer(self, low: Any, high: Any, *, shape: tuple[int, ...]) -> Any:
        """Numbers of the dtype of the limits, which are scalars."""
        if low.dtype != high.dtype or low.shape or high.shape:
            raise errors.ShapeError(
                f"the limits must be scalars of one dtype, got {low.str_short()} and {high.str_short()}"
            )
        return (array_aval(shape, low.dtype, False, low.varying | high.varying),)

    def jvp(self, primals: Any, tangents: Any, *, shape: Any) -> Any:
        """Draws are constants."""
        return self.bind(*primals, shape=shape), (None,)

    def batch(self, axis: Any, values: Any, dims: Any, *, shape: Any) -> Any:
        """Numbers between 0 and 1 for all lanes, moved between the limits of each."""
        low, high = (
            shapes.broadcast_in_dim(operands.to_front(axis, x, d), (axis.size, *shape), (0,))
            for x, d in zip(values, dims, strict=True)
        )
        dtype = aval_of(low).dtype
        unit = self.bind1(shapes.scalar(0, dtype), shapes.scalar(1, dtype), shape=(axis.size, *shape))
        return (elementwise.add(low, elementwise.mul(unit, elementwise.sub(high, low))),), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, *, shape: Any) -> Any:
        """`rng`."""
        (low, high), (out,) = ins, outs
        sizes = b.constant(np.array(shape, np.int64), array_aval((len(shape),), np.dtype(np.int64)))
        types = f"({low.hlo}, {high.hlo}, {sizes.hlo}) -> {out.hlo}"
        return [b.emit(f"stablehlo.rng {low}, {high}, {sizes}, distribution = UNIFORM : {types}", out)]


rng_bit_generator_p = RngBitGenerator("rng_bit_generator")
rng_uniform_p = RngUniform("rng_uniform")


def rng_bit_generator(
    key: Any, shape: Any, dtype: Any = np.uint32, algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT, *,
    out_sharding: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Random bits from the platform's generator.

    Parameters
    ----------
    key : uint32[4] or uint64[2]
        State.
    shape : sequence of int
    dtype : dtype
        uint8, uint16, uint32 or uint64.
    algorithm : RandomAlgorithm
    out_sharding : PartitionSpec or NamedSharding, optional
        How the bits lie on explicit mesh axes.

    Returns
    -------
    state : array like `key`
    bits : dtype[shape]

    Raises
    ------
    TypeError
        `dtype` is no unsigned integer.
    """
    dtype = dtypes.named(dtype)
    if dtype not in dtypes.UNSIGNED or dtype.itemsize * 8 not in (8, 16, 32, 64):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dtype}")
    params = {"shape": shapes.canonical_shape(shape), "dtype": dtype, "algorithm": int(algorithm)}
    state, bits = rng_bit_generator_p.bind(key, **params)
    if out_sharding is not None and resharding.is_explicit(out_sharding):
        bits = resharding.reshard_to(bits, *resharding.destination(out_sharding, len(params["shape"])))
    return state, bits


def rng_uniform(a: Any, b: Any, shape: Any) -> Any:
    """Uniform numbers from [a, b) out of a state that the platform keeps: neither pure nor reproducible.

    Parameters
    ----------
    a, b : floating or integer scalars
        Of one dtype.
    shape : sequence of int

    Returns
    -------
    array of `shape` and of the dtype of the limits
    """
    return rng_uniform_p.bind1(*operands.coerce("rng_uniform", a, b), shape=shapes.canonical_shape(shape))
