# SPDX-License-Identifier: Apache-2.0
"""Hashes of counters under a key, and the random generators made of them: Threefry-4x32, Philox-2x32 and Philox-4x32.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011); 20 rounds of Threefry, 10 of Philox. The
rounds are written once, with operators that NumPy's arrays and traced values share.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import errors
from purax.core.aval import array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, operands
from purax.primitives import random_bits as keys
from purax.primitives import shape as shapes
from purax.sharding import rules

__all__ = ["philox2x32_p", "philox4x32_p", "threefry4x32_p"]

_UINT32 = np.dtype(np.uint32)
_WORDS = tuple[Any, ...]
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_PARITY = 0x1BD11BDA  # the last word of the key schedule is the exclusive or of the others with this
_WEYL = (0x9E3779B9, 0xBB67AE85)  # added to the key from round to round
_FACTORS = {2: (0xD256D193,), 4: (0xD2511F53, 0xCD9E8D57)}


def _turned(x: Any, by: int) -> Any:
    return x << by | x >> 32 - by


def _threefry4(key: _WORDS, x: _WORDS) -> _WORDS:
    schedule = (*key, functools.reduce(operator.xor, key) ^ _PARITY)
    a, b, c, d = (word + part for word, part in zip(x, key, strict=True))
    for step in range(20):
        left, right = _ROTATIONS[step % 8]
        a, c = a + b, c + d
        b, d = _turned(b, left) ^ a, _turned(d, right) ^ c
        b, d = d, b  # the second and fourth words change places after each round
        if step % 4 == 3:
            count = step // 4 + 1
            a, b, c, d = (word + schedule[(count + i) % 5] for i, word in enumerate((a, b, c, d)))
            d = d + count
    return a, b, c, d


def _product(x: Any, factor: int) -> tuple[Any, Any]:
    """High and low word of the 64-bit product."""
    wide = x.astype(np.uint64) * factor
    return (wide >> 32).astype(np.uint32), wide.astype(np.uint32)


def _philox(key: _WORDS, x: _WORDS) -> _WORDS:
    factors = _FACTORS[len(x)]
    for step in range(10):
        if step:
            key = tuple(word + add for word, add in zip(key, _WEYL, strict=False))
        products = [_product(word, factor) for word, factor in zip(x[::2], factors, strict=True)]
        mixed: list[Any] = []
        # each high word meets the counter word beside the other product
        for (high, _), (_, low), other, word in zip(products[::-1], products[::-1], x[1::2], key, strict=True):
            mixed += [high ^ other ^ word, low]
        x = tuple(mixed)
    return x


class CounterHash(Primitive):
    """Hash of counter words under key words, all uint32 arrays of one shape.

    Parameters
    ----------
    name : str
    key_size, size : int
        How many words keys and counters have.
    rounds : (key words, counter words) -> counter words
    """

    exact = True

    def __init__(self, name: str, key_size: int, size: int, rounds: Callable[[_WORDS, _WORDS], _WORDS]) -> None:
        self.key_size, self.size, self.rounds = key_size, size, rounds
        super().__init__(name)

    spread = rules.elementwise

    def infer(self, *words: Any) -> Any:
        """As many arrays as counter words."""
        if len(words) != self.key_size + self.size:
            raise errors.ShapeError(
                f"takes {self.key_size} words of a key and {self.size} of a counter, got {len(words)}"
            )
        if any(a.dtype != _UINT32 for a in words):
            raise errors.DTypeError("key and counter words must have dtype uint32")
        if any(a.shape != words[0].shape for a in words):
            raise errors.ShapeError(f"key and counter words must have one shape, got {[a.shape for a in words]}")
        return (array_aval(words[0].shape, _UINT32),) * self.size

    def reference(self, *words: Any) -> Any:
        """The rounds in NumPy."""
        with np.errstate(over="ignore"):
            return tuple(map(np.asarray, self._hash(*words)))

    def _hash(self, *words: Any) -> _WORDS:
        return self.rounds(words[: self.key_size], words[self.key_size :])

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """Integers have no tangents."""
        return self.bind(*primals), (None,) * self.size

    def batch(self, axis: Any, values: Any, dims: Any) -> Any:
        """The same hash on words that are brought to one mapped axis."""
        aligned, dim = operands.align(axis, values, dims)
        return self.bind(*aligned), (dim,) * self.size

    def lower(self, b: Any, ins: Any, outs: Any) -> Any:
        """The rounds one after another."""
        return b.inline(self._hash, ins)


threefry4x32_p = CounterHash("threefry4x32", 4, 4, _threefry4)
philox2x32_p = CounterHash("philox2x32", 1, 2, _philox)
philox4x32_p = CounterHash("philox4x32", 2, 4, _philox)


# --- generators ---------------------------------------------------------------------------------------------------------------


def _hashed(primitive: CounterHash, words: Any, counters: Any) -> Any:
    """Hash counters (None: zero) of one shape under each key: results of shape [*keys, *counters]."""
    lead = aval_of(words).shape[:-1]
    sizes = next(aval_of(c).shape for c in counters if c is not None)
    target = (*lead, *sizes)
    spread = [
        shapes.broadcast_in_dim(keys.word_of(words, i), target, range(len(lead))) for i in range(primitive.key_size)
    ]
    numbers = [
        shapes.full(target, 0, _UINT32)
        if c is None
        else shapes.broadcast_in_dim(c, target, range(len(lead), len(target)))
        for c in counters
    ]
    return primitive.bind(*spread, *numbers)


def _generator(tag: str, primitive: CounterHash, seed_is_key: bool) -> keys.Generator:
    """A generator that makes keys from the last two counter words, and bits from the first two."""
    rest = (None,) * (primitive.size - 2)

    def seed(seeds: Any) -> Any:
        found = keys.seed_words(seeds)
        halves = [keys.word_of(found, i) for i in range(2)]
        nothing = [shapes.full_like(halves[0], 0)] * 4
        if seed_is_key:
            outs = primitive.bind(*halves, *nothing[: primitive.key_size - 2], *nothing[: primitive.size])
        else:
            outs = primitive.bind(*nothing[: primitive.key_size], *halves, *nothing[: primitive.size - 2])
        return keys.stacked(outs[: primitive.key_size])

    def split(words: Any, shape: tuple[int, ...], partitionable: bool) -> Any:
        outs = _hashed(primitive, words, (*rest, *keys.numbers_of(shape)))
        return keys.stacked(outs[: primitive.key_size])

    def fold_in(words: Any, data: Any) -> Any:
        parts = [keys.word_of(words, i) for i in range(primitive.key_size)]
        nothing = shapes.full_like(data, 0)
        outs = primitive.bind(*parts, *[nothing] * (primitive.size - 1), data)
        return keys.stacked(outs[: primitive.key_size])

    def random_bits(words: Any, bit_width: int, shape: tuple[int, ...], partitionable: bool) -> Any:
        outs = _hashed(primitive, words, (*keys.numbers_of(shape), *rest))
        if bit_width == 64:
            if primitive is threefry4x32_p:
                outs = [elementwise.bitwise_xor(outs[i], outs[i + 2]) for i in range(2)]
            return keys.joined(outs[0], outs[1])
        return cast.convert_element_type(functools.reduce(elementwise.bitwise_xor, outs), f"uint{bit_width}")

    made = keys.Generator(primitive.name, tag, (primitive.key_size,), seed, split, fold_in, random_bits)
    return keys.register(made)


_generator("fry4", threefry4x32_p, True)
_generator("phx2", philox2x32_p, False)
_generator("phx4", philox4x32_p, False)
