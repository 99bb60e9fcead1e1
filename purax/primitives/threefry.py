# SPDX-License-Identifier: Apache-2.0
"""The Threefry-2x32 hash with 20 rounds: a block cipher of additions, rotations and exclusive ors on pairs of uint32 words.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). The compiled form stands in a
private function, so that a program with many draws of one shape holds it once; it has its rounds unrolled for many numbers, and
in a loop for few. Small draws are made
on the host: all blocks at once in one Python integer, a lane of 64 bits per block, which takes microseconds and no compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from purax import errors
from purax.core.aval import array_aval
from purax.core.dims import is_open
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.lowering.emit import Builder, Value
from purax.primitives import operands, shape
from purax.sharding import rules

__all__ = ["hash_on_host", "threefry2x32_p", "threefry_2x32"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA  # the third word of the key schedule is the exclusive or of the other two with this
_UINT32 = np.dtype(np.uint32)
# XLA runs programs that it counts less than a thousand operations for in the calling thread, and counts a loop once: so few numbers
# come quicker from a loop. And it writes unrolled rounds into each place that uses their result, again for each element there, but
# not a loop: so keys are made in a loop, too.
_FEW = 16
_FEW_KEYS = 4096


def _rounds(k0: Any, k1: Any, x0: Any, x1: Any, one: Any, mask: Any) -> tuple[Any, Any]:
    """The hash on anything with integer operators; `one` is 1 in each lane, `mask` keeps 32 bits of each lane.

    Lanes of more than 32 bits need room for the carries of 25 sums: `x0` is cut to its 32 bits at the end only.
    """
    schedule = (k0, k1, k0 ^ k1 ^ one * _PARITY)
    x0, x1 = x0 + k0, x1 + k1 & mask
    for step in range(5):
        for r in _ROTATIONS[step & 1]:
            x0 = x0 + x1
            x1 = ((x1 << r | x1 >> 32 - r) ^ x0) & mask
        x0 = x0 + schedule[(step + 1) % 3]
        x1 = x1 + schedule[(step + 2) % 3] + one * (step + 1) & mask
    return x0 & mask, x1


class Threefry2x32(Primitive):
    """Hash of the counter words `x0, x1` under the key words `k0, k1`; the key is one (scalars) or one per counter.

    With `for_keys`, the results are keys to hash with: see `_FEW_KEYS`.
    """

    exact = True

    spread = rules.elementwise

    def infer(self, k0: Any, k1: Any, x0: Any, x1: Any, *, for_keys: bool = False) -> Any:
        """Two arrays of uint32 of the counters' shape."""
        if any(a.dtype != _UINT32 for a in (k0, k1, x0, x1)):
            raise errors.DTypeError("key and counters must have dtype uint32")
        if x0.shape != x1.shape or k0.shape != k1.shape or k0.shape not in ((), x0.shape):
            raise errors.ShapeError("both counters must have one shape, and the key words be scalars or of that shape")
        out = array_aval(x0.shape, _UINT32, False, x0.varying.union(x1.varying, k0.varying, k1.varying))
        return (out, out)

    def reference(self, k0: Any, k1: Any, x0: Any, x1: Any, *, for_keys: bool = False) -> Any:
        """The rounds in NumPy."""
        with np.errstate(over="ignore"):
            return tuple(map(np.asarray, _rounds(k0, k1, x0, x1, np.uint32(1), np.uint32(0xFFFFFFFF))))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Integers have no tangents."""
        return self.bind(*primals, **params), (None, None)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """A key per counter where the key is mapped, else the same key for all."""
        keys, counters = values[:2], values[2:]
        if dims[0] is None and dims[1] is None and aval_of(keys[0]).ndim == 0:
            counters, dim = operands.align(axis, counters, dims[2:])
            return self.bind(*keys, *counters, **params), (dim, dim)
        counters = [operands.to_front(axis, x, d) for x, d in zip(counters, dims[2:], strict=True)]
        target = aval_of(counters[0]).shape
        keys = [operands.to_front(axis, k, d) for k, d in zip(keys, dims[:2], strict=True)]
        keys = [k if aval_of(k).shape == target else shape.broadcast_in_dim(k, target, (0,)) for k in keys]
        return self.bind(*keys, *counters, **params), (0, 0)

    def lower(self, b: Any, ins: Any, outs: Any, *, for_keys: bool = False) -> Any:
        """Call of a private function with the rounds, made once per module and type."""
        avals = [x.aval for x in ins]
        looped = is_open(outs[0].shape) or outs[0].size <= (_FEW_KEYS if for_keys else _FEW)
        rounds = _loop if looped else _unrolled
        name = b.shared(
            ("threefry2x32", looped, *avals), "threefry2x32", avals, lambda inner, *xs: _hash(inner, xs, rounds)
        )
        return b.call_named(name, ins, outs)


def _apply(b: Builder, operation: str, x: Value, y: Value | int) -> Value:
    if isinstance(y, int):
        y = b.constant(y, x.aval)
    return b.emit(f"stablehlo.{operation} {x}, {y} : {x.hlo}", x.aval)


def _turn(b: Builder, x: Value, left: Value | int, right: Value | int) -> Value:
    return _apply(b, "or", _apply(b, "shift_left", x, left), _apply(b, "shift_right_logical", x, right))


def _hash(b: Builder, words: Sequence[Value], rounds: Any) -> list[Value]:
    """The key schedule, the addition of the key, and the rounds."""
    k0, k1, x0, x1 = words
    keys = [k0, k1, _apply(b, "xor", _apply(b, "xor", k0, k1), _PARITY)]
    x0, x1 = (_apply(b, "add", x, b.broadcast(k, (), x.aval)) for x, k in ((x0, k0), (x1, k1)))
    found: list[Value] = rounds(b, keys, x0, x1)
    return found


def _unrolled(b: Builder, keys: list[Value], x0: Value, x1: Value) -> list[Value]:
    """The rounds one after another."""
    for step in range(5):
        for r in _ROTATIONS[step & 1]:
            x0 = _apply(b, "add", x0, x1)
            x1 = _apply(b, "xor", _turn(b, x1, r, 32 - r), x0)
        x0 = _apply(b, "add", x0, b.broadcast(keys[(step + 1) % 3], (), x0.aval))
        # The step's number is added to the key word, which is a scalar where there is one key.
        x1 = _apply(b, "add", x1, b.broadcast(_apply(b, "add", keys[(step + 2) % 3], step + 1), (), x1.aval))
    return [x0, x1]


def _loop(b: Builder, keys: list[Value], x0: Value, x1: Value) -> list[Value]:
    """The rounds as a loop of five steps, with tables of rotations and of the key words that are added."""
    index, out, own = array_aval((), _UINT32), x0.aval, keys[0].aval
    row, rows = own.update(shape=(1, *own.shape)), own.update(shape=(6, *own.shape))
    parts = [b.reshape(k, row.shape) for k in (keys[1], keys[2], keys[0]) * 2]
    types = ", ".join([row.hlo] * 6)
    table = b.emit(f"stablehlo.concatenate {', '.join(map(str, parts))}, dim = 0 : ({types}) -> {rows.hlo}", rows)
    turns = np.array([_ROTATIONS[step & 1] for step in range(5)], np.uint32).reshape(-1)
    rotations = b.constant(turns, array_aval(turns.shape, _UINT32))

    def entry(b: Builder, x: Value, at: Value) -> Value:
        """`x[at]`."""
        zero, one = b.constant(0, index), x.aval.update(shape=(1, *x.shape[1:]))
        starts = [at, *[zero] * (x.aval.ndim - 1)]
        places, types = ", ".join(map(str, starts)), ", ".join([index.hlo] * len(starts))
        sizes = ", ".join(map(str, one.shape))
        piece = b.emit(
            f"stablehlo.dynamic_slice {x}, {places}, sizes = [{sizes}] : ({x.hlo}, {types}) -> {one.hlo}", one
        )
        return b.reshape(piece, one.shape[1:])

    def step(b: Builder, i: Value, x0: Value, x1: Value) -> list[Value]:
        place = _apply(b, "multiply", i, 4)
        for _ in range(4):
            r = entry(b, rotations, place)
            left, right = (b.broadcast(y, (), out) for y in (r, _apply(b, "subtract", b.constant(32, index), r)))
            x0 = _apply(b, "add", x0, x1)
            x1 = _apply(b, "xor", _turn(b, x1, left, right), x0)
            place = _apply(b, "add", place, 1)
        following = _apply(b, "add", i, 1)
        x0 = _apply(b, "add", x0, b.broadcast(entry(b, table, i), (), out))
        x1 = _apply(b, "add", x1, b.broadcast(entry(b, table, following), (), out))
        return [following, x0, _apply(b, "add", x1, b.broadcast(following, (), out))]

    def unfinished(b: Builder, i: Value, x0: Value, x1: Value) -> list[Value]:
        flag = array_aval((), np.dtype(np.bool_))
        five = b.constant(5, index)
        return [b.emit(f"stablehlo.compare LT, {i}, {five}, UNSIGNED : ({i.hlo}, {five.hlo}) -> {flag.hlo}", flag)]

    state = [b.constant(0, index), x0, x1]
    avals, types = [x.aval for x in state], ", ".join(x.hlo for x in state)
    regions = f"{b.block(avals, unfinished)}, {b.block(avals, step)}"
    text = f'"stablehlo.while"({", ".join(map(str, state))}) ({regions}) : ({types}) -> ({types})'
    return b.emit_many(text, avals)[1:]


threefry2x32_p = Threefry2x32("threefry2x32")


# --- on the host --------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _lanes(count: int) -> tuple[int, int, int]:
    """For `count` lanes: 1 in each, the mask of each lane's low half, and the numbers 0, 1, 2, ..."""
    one = sum(1 << 64 * i for i in range(count))
    return one, one * 0xFFFFFFFF, sum(i << 64 * i for i in range(count))


def _packed(words: np.ndarray) -> int:
    return int.from_bytes(words.astype("<u8").tobytes(), "little")


def hash_on_host(words: np.ndarray, counters: int | np.ndarray) -> np.ndarray:
    """Hash small counters under keys: `uint32[..., 2]` keys give `uint32[..., n, 2]` for the counters 0 to n - 1.

    Parameters
    ----------
    words : uint32[..., 2]
        Keys.
    counters : int or uint32[...]
        How many counters from 0 on, for each key; or one counter for each key (the result is then `uint32[..., 2]`).

    Returns
    -------
    numpy.ndarray of uint32
    """
    keys = words.shape[:-1]
    tail: tuple[int, ...]
    if type(counters) is int:
        lanes, tail = words.size // 2 * counters, (counters, 2)
        one, mask, numbers = _lanes(lanes)
        if not keys:
            k0, k1 = words.tolist()
            k0, k1 = k0 * one, k1 * one
        else:
            repeated = np.repeat(words.reshape(-1, 2), counters, axis=0)
            k0, k1 = _packed(repeated[:, 0]), _packed(repeated[:, 1])
            numbers = _packed(np.tile(np.arange(counters), words.size // 2))
    else:
        lanes, tail = words.size // 2, (2,)
        one, mask, _ = _lanes(lanes)
        k0, k1 = words.tolist() if not keys else (_packed(words[..., 0]), _packed(words[..., 1]))
        numbers = int(counters) if not keys else _packed(np.asarray(counters))
    x0, x1 = _rounds(k0, k1, 0, numbers, one, mask)
    return np.frombuffer((x0 | x1 << 32).to_bytes(8 * lanes, "little"), "<u4").reshape(*keys, *tail)


# --- the user's function --------------------------------------------------------------------------------------------------------


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Hash counters, the first half of them paired with the second.

    Parameters
    ----------
    keypair : two uint32 scalars, or uint32[2]
    count : uint32[...]

    Returns
    -------
    uint32[...]
        Of the shape of `count`.

    Raises
    ------
    DTypeError
        Something is not uint32.
    """
    k0, k1 = keypair
    sizes, size = aval_of(count).shape, aval_of(count).size
    if any(aval_of(x).dtype != _UINT32 for x in (k0, k1, count)):
        raise errors.DTypeError("threefry_2x32: key and counters must have dtype uint32")
    flat = shape.reshape(count, (size,))
    half = (size + 1) // 2
    if size % 2:
        flat = shape.concatenate([flat, np.zeros(1, _UINT32)], 0)
    outs = threefry2x32_p.bind(k0, k1, shape.slice(flat, (0,), (half,)), shape.slice(flat, (half,), (2 * half,)))
    flat = shape.concatenate(outs, 0)
    return shape.reshape(shape.slice(flat, (0,), (size,)) if size % 2 else flat, sizes)
