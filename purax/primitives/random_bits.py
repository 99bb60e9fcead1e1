# SPDX-License-Identifier: Apache-2.0
"""Random keys: the implementations behind them, and the primitives that make, split and spend them.

A key is an element of a *key dtype*; on devices it is a few uint32 words behind the axes of the key array. Each primitive here
says by its `words` rule what it does to those words, with operations on plain integers; `transforms/keys.py` applies that rule
before a program is lowered. Rules work on all keys of an array at once: the words have any number of leading axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import config, dtypes, errors
from purax.core.aval import array_aval
from purax.core.dims import Dim
from purax.core.interpret import reference_eval
from purax.core.primitive import Primitive
from purax.core.stage import stage
from purax.core.trace import aval_of
from purax.lowering.emit import Value
from purax.primitives import bits, cast, comparison, elementwise, generator, operands
from purax.primitives import shape as shapes
from purax.primitives.threefry import hash_on_host, threefry2x32_p
from purax.runtime.buffers import physical
from purax.runtime.transfer import HOST_LIMIT
from purax.sharding import rules

__all__ = [
    "GENERATORS",
    "Generator",
    "random_bits",
    "random_bits_p",
    "random_clone",
    "random_clone_p",
    "random_fold_in",
    "random_fold_in_p",
    "random_seed",
    "random_seed_p",
    "random_split",
    "random_split_p",
    "random_unwrap",
    "random_unwrap_p",
    "random_wrap",
    "random_wrap_p",
    "rbg",
    "register",
    "threefry2x32",
    "unsafe_rbg",
]  # fmt: skip

_UINT32 = np.dtype(np.uint32)
_UINTS = {width: np.dtype(f"uint{width}") for width in (8, 16, 32, 64)}
_HOST_LANES = 128  # blocks that the host hashes faster than a compiled program starts


class Generator:
    """One kind of random key. The functions take words `uint32[..., *key_shape]` and keep the leading axes.

    Attributes
    ----------
    name, tag : str
    key_shape : tuple of int
    seed : seeds -> words
    split : words, shape, partitionable -> words[..., *shape, *key_shape]
    fold_in : words, uint32[...] -> words
    random_bits : words, bit_width, shape, partitionable -> unsigned[..., *shape]
    """

    __slots__ = ("fold_in", "key_shape", "name", "random_bits", "seed", "split", "tag")

    def __init__(
        self, name: str, tag: str, key_shape: tuple[int, ...], seed: Callable[..., Any], split: Callable[..., Any],
        fold_in: Callable[..., Any], random_bits: Callable[..., Any],
    ) -> None:  # fmt: skip
        self.name, self.tag, self.key_shape = name, tag, tuple(key_shape)
        self.seed, self.split, self.fold_in, self.random_bits = seed, split, fold_in, random_bits

    @property
    def dtype(self) -> dtypes.KeyDtype:
        """Dtype of its keys."""
        return dtypes.key_dtype(self)

    def __str__(self) -> str:
        return self.tag

    def __repr__(self) -> str:
        return f"Generator({self.name!r})"

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)


GENERATORS: dict[str, Generator] = {}


def register(made: Generator) -> Generator:
    """Make a generator known by its name.

    Raises
    ------
    ValueError
        The name is taken.
    """
    if GENERATORS.setdefault(made.name, made) is not made:
        raise ValueError(f"a random generator named {made.name!r} exists already")
    return made


def _by_name(name: str) -> Generator:
    return GENERATORS[name]


# --- threefry -----------------------------------------------------------------------------------------------------------------


def word_of(words: Any, i: int) -> Any:
    """Word i of each key."""
    aval = aval_of(words)
    last = aval.ndim - 1
    return shapes.reshape(shapes.slice_in_dim(words, i, i + 1, axis=last), aval.shape[:last])


def stacked(parts: Any) -> Any:
    """Keys from their words."""
    return shapes.stack(list(parts), aval_of(parts[0]).ndim)


def numbers_of(sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """High and low words of the number of each element of an array."""
    size: Any = math.prod(sizes)
    if type(size) is Dim or size <= 1 << 32:
        return shapes.full(sizes, 0, _UINT32), shapes.reshape(shapes.iota(_UINT32, size), sizes)
    numbers = shapes.reshape(shapes.iota(_UINTS[64], size), sizes)
    high = bits.shift_right_logical(numbers, 32)
    return cast.convert_element_type(high, _UINT32), cast.convert_element_type(numbers, _UINT32)


def _blocks(words: Any, sizes: tuple[int, ...], count: int | None = None, for_keys: bool = False) -> tuple[Any, Any]:
    """Hash the numbers of the elements of an array of `sizes` under each key: two arrays `uint32[*keys, *sizes]`.

    With `count`, the plain order of older programs: counters from 0 to 2 * size - 1, the first half paired with the second.
    """
    if count is None:
        high, low = numbers_of(sizes)
    else:
        flat = shapes.iota(_UINT32, 2 * math.prod(sizes))
        if count % 2:  # the last counter of an odd number is zero
            flat = elementwise.mul(flat, cast.convert_element_type(comparison.lt(flat, np.uint32(count)), _UINT32))
        high, low = (shapes.reshape(x, sizes) for x in shapes.split(flat, [math.prod(sizes)] * 2))
    k0, k1 = word_of(words, 0), word_of(words, 1)
    keys = aval_of(k0).shape
    if keys:
        target = (*keys, *sizes)
        k0, k1 = (shapes.broadcast_in_dim(k, target, range(len(keys))) for k in (k0, k1))
        high, low = (shapes.broadcast_in_dim(x, target, range(len(keys), len(target))) for x in (high, low))
    return threefry2x32_p.bind(k0, k1, high, low, for_keys=for_keys)


def seed_words(seeds: Any) -> Any:
    """The high and low words of integers."""
    low = cast.convert_element_type(seeds, _UINT32)
    if aval_of(seeds).dtype.itemsize < 8:
        return stacked([shapes.full_like(low, 0), low])
    wide = cast.convert_element_type(seeds, _UINTS[64])
    return stacked([cast.convert_element_type(bits.shift_right_logical(wide, 32), _UINT32), low])


def _threefry_split(words: Any, shape: tuple[int, ...], partitionable: bool) -> Any:
    keys = aval_of(words).shape[:-1]
    if partitionable:
        return stacked(_blocks(words, shape, for_keys=True))
    size = math.prod(shape)
    flat = shapes.concatenate(_blocks(words, (size,), 2 * size, for_keys=True), len(keys))
    return shapes.reshape(flat, (*keys, *shape, 2))


def _threefry_fold_in(words: Any, data: Any) -> Any:
    k0, k1 = word_of(words, 0), word_of(words, 1)
    return stacked(threefry2x32_p.bind(k0, k1, shapes.full_like(data, 0), data, for_keys=True))


def _threefry_bits(words: Any, bit_width: int, shape: tuple[int, ...], partitionable: bool) -> Any:
    dtype = _UINTS[bit_width]
    if not partitionable:
        return _plain_bits(words, dtype, shape)
    first, second = _blocks(words, shape)
    if bit_width == 64:
        return joined(first, second)
    return cast.convert_element_type(bits.bitwise_xor(first, second), dtype)


def joined(high: Any, low: Any) -> Any:
    """Numbers of 64 bits from their high and low words."""
    high, low = (cast.convert_element_type(x, _UINTS[64]) for x in (high, low))
    return bits.bitwise_or(bits.shift_left(high, 32), low)


def _plain_bits(words: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    keys, size, width = aval_of(words).shape[:-1], math.prod(shape), dtype.itemsize * 8
    count = -(-size * width // 32)
    last = len(keys)
    first, second = _blocks(words, ((count + 1) // 2,), count)
    if width == 64:
        return shapes.reshape(joined(first, second), (*keys, *shape))
    flat = shapes.concatenate([first, second], last)
    if width < 32:  # each word holds several numbers, the lowest first
        parts = 32 // width
        target = (*aval_of(flat).shape, parts)
        flat = shapes.broadcast_in_dim(flat, target, range(last + 1))
        shifts = elementwise.mul(shapes.broadcasted_iota(_UINT32, target, last + 1), np.uint32(width))
        flat = cast.convert_element_type(bits.shift_right_logical(flat, shifts), dtype)
        flat = shapes.reshape(flat, (*keys, target[-2] * parts))
    flat = shapes.slice_in_dim(flat, 0, size, axis=last)
    return shapes.reshape(flat, (*keys, *shape))


# --- the platform's generator -----------------------------------------------------------------------------------------------------


def _halves(words: Any) -> Any:
    """`uint32[..., 4]` as two threefry keys: `uint32[..., 2, 2]`."""
    return shapes.reshape(words, (*aval_of(words).shape[:-1], 2, 2))


def _joined_halves(halves: Any) -> Any:
    return shapes.reshape(halves, (*aval_of(halves).shape[:-2], 4))


def _rbg_seed(seeds: Any) -> Any:
    half = seed_words(seeds)
    return shapes.concatenate([half, half], aval_of(half).ndim - 1)


def _rbg_split(words: Any, shape: tuple[int, ...], partitionable: bool) -> Any:
    split = _threefry_split(_halves(words), shape, partitionable)  # (*keys, half, *shape, word)
    return _joined_halves(operands.move_axis(split, aval_of(words).ndim - 1, aval_of(split).ndim - 2))


def _rbg_fold_in(words: Any, data: Any) -> Any:
    sizes = aval_of(data).shape
    return _joined_halves(
        _threefry_fold_in(_halves(words), shapes.broadcast_in_dim(data, (*sizes, 2), range(len(sizes))))
    )


def _rbg_bits(words: Any, bit_width: int, shape: tuple[int, ...], partitionable: bool) -> Any:
    """One draw from the first key: the generator has no form for many keys."""
    sizes = aval_of(words).shape
    first = shapes.reshape(shapes.slice(words, (0,) * len(sizes), (*(1,) * (len(sizes) - 1), 4)), (4,))
    return generator.rng_bit_generator(first, (*sizes[:-1], *shape), _UINTS[bit_width])[1]


def _unsafe_split(words: Any, shape: tuple[int, ...], partitionable: bool) -> Any:
    keys = aval_of(words).shape[:-1]
    drawn = _rbg_bits(words, 32, (10 * math.prod(shape), 4), partitionable)
    spread = shapes.slice_in_dim(drawn, 0, aval_of(drawn).shape[len(keys)], 10, axis=len(keys))
    return shapes.reshape(spread, (*keys, *shape, 4))


def _unsafe_fold_in(words: Any, data: Any) -> Any:
    last = aval_of(data).ndim
    drawn = _rbg_bits(_rbg_seed(data), 32, (10, 4), True)
    return bits.bitwise_xor(words, shapes.index_in_dim(drawn, 9, last, keepdims=False))


threefry2x32 = register(
    Generator("threefry2x32", "fry", (2,), seed_words, _threefry_split, _threefry_fold_in, _threefry_bits)
)
rbg = register(Generator("rbg", "rbg", (4,), _rbg_seed, _rbg_split, _rbg_fold_in, _rbg_bits))
unsafe_rbg = register(Generator("unsafe_rbg", "urbg", (4,), _rbg_seed, _unsafe_split, _unsafe_fold_in, _rbg_bits))


# --- primitives -------------------------------------------------------------------------------------------------------------------


class KeyPrimitive(Primitive):
    """What has keys among its operands or outputs; `impl` is their generator. Subclasses give `infer`, `words` and `batch`.

    words(*words, **params) -> tuple of words
        The operation on words, keys having their axes last.
    quick(avals, params) -> bool; host(values, params) -> tuple of numpy.ndarray
        Whether the host is quicker than a compiled program, and the operation there.
    """

    def words(self, *operands: Any, **params: Any) -> tuple[Any, ...]:
        """See the class."""
        raise NotImplementedError

    def quick(self, avals: Any, params: dict[str, Any]) -> bool:
        """By default the host has no quick way."""
        return False

    def host(self, values: Any, params: dict[str, Any]) -> Any:
        """See the class."""
        raise NotImplementedError

    def reference(self, *operands: Any, **params: Any) -> Any:
        """The `words` rule by the references of its operations, on arrays of words."""
        avals = [array_aval(x.shape, x.dtype) for x in map(np.asarray, operands)]
        closed = stage(lambda *xs: self.words(*xs, **params), avals)
        return tuple(reference_eval(closed.jaxpr, closed.consts, *operands))

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Keys and bits have no tangents."""
        outs = self.bind(*primals, **params)
        return outs, (None,) * len(outs)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> Any:
        """The `words` rule in place."""
        return b.inline(lambda *xs: self.words(*xs, **params), [Value(x.name, physical(x.aval)) for x in ins])


def _check_keys(aval: Any, impl: Generator) -> None:
    if aval.dtype is not impl.dtype:
        raise errors.DTypeError(
            f"keys of dtype {impl.dtype} are needed, got an array of dtype {operands.dtype_name(aval)}"
        )


def _few_blocks(keys: Any, params: dict[str, Any]) -> bool:
    blocks = keys.size * math.prod(params.get("shape", ()))
    return params["impl"] is threefry2x32 and params.get("partitionable", True) and blocks <= _HOST_LANES


class RandomSeed(KeyPrimitive):
    """Keys from integers."""

    spread = rules.elementwise

    def infer(self, seeds: Any, *, impl: Generator) -> Any:
        """One key per integer."""
        return (array_aval(seeds.shape, impl.dtype, False, seeds.varying),)

    def words(self, seeds: Any, *, impl: Generator) -> Any:
        """The generator's rule."""
        return (impl.seed(seeds),)

    def quick(self, avals: Any, params: dict[str, Any]) -> bool:
        """For small arrays."""
        return params["impl"].seed in (seed_words, _rbg_seed) and avals[0].size <= HOST_LIMIT

    def host(self, values: Any, params: dict[str, Any]) -> Any:
        """High and low word of each seed."""
        impl, seeds = params["impl"], values[0]
        low = seeds.astype(np.uint32)
        high = (seeds.astype(np.uint64) >> 32).astype(np.uint32) if seeds.itemsize == 8 else np.zeros_like(low)
        return (np.stack([high, low] * (impl.key_shape[0] // 2), -1),)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """Seeds along any axes."""
        return self.bind(*values, **params), dims


class RandomSplit(KeyPrimitive):
    """New keys from each key, along new axes `shape` behind those of the keys."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes of the keys lie as they did; the new ones are not cut."""
        (s,) = ins
        return [s.replace((*s.parts, *[()] * (outs[0].ndim - len(s.parts))))]

    def infer(self, keys: Any, *, shape: tuple[int, ...], partitionable: bool, impl: Generator) -> Any:
        """Keys of the same kind."""
        _check_keys(keys, impl)
        return (keys.update(shape=(*keys.shape, *shape)),)

    def words(self, words: Any, *, shape: tuple[int, ...], partitionable: bool, impl: Generator) -> Any:
        """The generator's rule."""
        return (impl.split(words, shape, partitionable),)

    def quick(self, avals: Any, params: dict[str, Any]) -> bool:
        """For few blocks of threefry."""
        return _few_blocks(avals[0], params)

    def host(self, values: Any, params: dict[str, Any]) -> Any:
        """Keys are the hashes of their numbers."""
        words, shape = values[0], params["shape"]
        return (hash_on_host(words, math.prod(shape)).reshape(*words.shape[:-1], *shape, 2),)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """Keys along any axes."""
        return self.bind(*values, **params), dims


class RandomFoldIn(KeyPrimitive):
    """A new key from each key and a number (uint32)."""

    spread = rules.elementwise

    def infer(self, keys: Any, data: Any, *, impl: Generator) -> Any:
        """Keys of the same kind."""
        _check_keys(keys, impl)
        if data.dtype != _UINT32 or data.shape != keys.shape:
            raise errors.ShapeError(
                f"one uint32 per key is needed for keys of shape {keys.shape}, got {data.str_short()}"
            )
        return (array_aval(keys.shape, keys.dtype, False, keys.varying | data.varying),)

    def words(self, words: Any, data: Any, *, impl: Generator) -> Any:
        """The generator's rule."""
        return (impl.fold_in(words, data),)

    def quick(self, avals: Any, params: dict[str, Any]) -> bool:
        """For few blocks of threefry."""
        return _few_blocks(avals[0], params)

    def host(self, values: Any, params: dict[str, Any]) -> Any:
        """The key is the hash of the number."""
        return (hash_on_host(*values),)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """Keys and numbers along one axis."""
        aligned, dim = operands.align(axis, values, dims)
        return self.bind(*aligned, **params), (dim,)


class RandomBits(KeyPrimitive):
    """Unsigned integers of `bit_width` random bits, along new axes `shape` behind those of the keys."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes of the keys lie as they did; the new ones are not cut."""
        (s,) = ins
        return [s.replace((*s.parts, *[()] * (outs[0].ndim - len(s.parts))))]

    def infer(self, keys: Any, *, bit_width: int, shape: tuple[int, ...], partitionable: bool, impl: Generator) -> Any:
        """Unsigned integers."""
        _check_keys(keys, impl)
        return (array_aval((*keys.shape, *shape), _UINTS[bit_width], False, keys.varying),)

    def words(self, words: Any, *, bit_width: int, shape: tuple[int, ...], partitionable: bool, impl: Generator) -> Any:
        """The generator's rule."""
        return (impl.random_bits(words, bit_width, shape, partitionable),)

    def quick(self, avals: Any, params: dict[str, Any]) -> bool:
        """For few blocks of threefry."""
        return _few_blocks(avals[0], params)

    def host(self, values: Any, params: dict[str, Any]) -> Any:
        """Both words of a block, joined."""
        words, shape = values[0], params["shape"]
        blocks = hash_on_host(words, math.prod(shape))
        first, second = blocks[..., 0], blocks[..., 1]
        dtype = _UINTS[params["bit_width"]]
        if dtype.itemsize == 8:
            drawn = first.astype(np.uint64) << np.uint64(32) | second
        else:
            drawn = (first ^ second).astype(dtype)
        return (drawn.reshape((*words.shape[:-1], *shape)),)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """Keys along any axes."""
        return self.bind(*values, **params), dims


class RandomWrap(KeyPrimitive):
    """Keys from their words."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes of the keys lie as they did; those of the words must not be cut."""
        (s,), ndim = ins, outs[0].ndim
        return [rules.uncut_along(self.name, s, range(ndim, len(s.parts))).replace(s.parts[:ndim])]

    def infer(self, words: Any, *, impl: Generator) -> Any:
        """Keys: the words' last axes go."""
        split = words.ndim - len(impl.key_shape)
        if split < 0 or words.shape[split:] != impl.key_shape:
            raise errors.ShapeError(
                f"words of {impl.name} keys end with axes {impl.key_shape}, got shape {words.shape}"
            )
        if words.dtype != _UINT32:
            raise errors.DTypeError(f"words of random keys have dtype uint32, got {operands.dtype_name(words)}")
        return (array_aval(words.shape[:split], impl.dtype, False, words.varying),)

    def words(self, words: Any, *, impl: Generator) -> Any:
        """The words."""
        return (words,)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """The mapped axis in front of those of the words."""
        return self.bind(shapes.move_batch_axis(values[0], dims[0], 0), **params), (0,)


class RandomUnwrap(KeyPrimitive):
    """The words of keys."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The axes of the keys lie as they did; the new ones are not cut."""
        (s,) = ins
        return [s.replace((*s.parts, *[()] * (outs[0].ndim - len(s.parts))))]

    def infer(self, keys: Any, *, impl: Generator) -> Any:
        """uint32, the axes of a key last."""
        _check_keys(keys, impl)
        return (array_aval((*keys.shape, *impl.key_shape), _UINT32, False, keys.varying),)

    def words(self, words: Any, *, impl: Generator) -> Any:
        """The words."""
        return (words,)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """Keys along any axes."""
        return self.bind(*values, **params), dims


class RandomClone(KeyPrimitive):
    """The same keys, to be spent once more."""

    spread = rules.same

    def infer(self, keys: Any, *, impl: Generator) -> Any:
        """The same aval."""
        _check_keys(keys, impl)
        return (keys,)

    def words(self, words: Any, *, impl: Generator) -> Any:
        """The words."""
        return (words,)

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """Keys along any axes."""
        return self.bind(*values, **params), dims


random_seed_p = RandomSeed("random_seed")
random_split_p = RandomSplit("random_split")
random_fold_in_p = RandomFoldIn("random_fold_in")
random_bits_p = RandomBits("random_bits")
random_wrap_p = RandomWrap("random_wrap")
random_unwrap_p = RandomUnwrap("random_unwrap")
random_clone_p = RandomClone("random_clone")


def _generator_of(keys: Any) -> Generator:
    dtype = aval_of(keys).dtype
    if not isinstance(dtype, dtypes.KeyDtype):
        raise errors.DTypeError(f"random keys are needed, got an array of dtype {operands.dtype_name(dtype)}")
    return dtype.impl  # type: ignore[return-value]


# --- functions ----------------------------------------------------------------------------------------------------------------------


def random_seed(seeds: Any, impl: Generator) -> Any:
    """Keys of the generator `impl` from integers: integer[...] -> key[...].

    Raises
    ------
    TypeError
        Seeds are not integers.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = np.int64(seeds)
    seeds = operands.lift(seeds)
    if not dtypes.is_integer(seeds.aval.dtype):
        raise TypeError(f"random keys are made of integer seeds, got dtype {operands.dtype_name(seeds.aval)}")
    return random_seed_p.bind1(seeds, impl=impl)


def random_split(keys: Any, shape: tuple[int, ...]) -> Any:
    """New keys from each key: key[...] -> key[..., *shape]."""
    return random_split_p.bind1(
        keys, shape=shape, partitionable=config.threefry_partitionable, impl=_generator_of(keys)
    )


def random_fold_in(keys: Any, data: Any) -> Any:
    """New keys from keys and numbers `data`, which must have one shape: key[...], uint32[...] -> key[...]."""
    return random_fold_in_p.bind1(keys, data, impl=_generator_of(keys))


def random_bits(keys: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Random bits from each key: key[...] -> unsigned[..., *shape].

    Parameters
    ----------
    keys : key[...]
    bit_width : 8, 16, 32 or 64
    shape : tuple of int

    Returns
    -------
    unsigned[..., *shape] of that width
    """
    return random_bits_p.bind1(
        keys, bit_width=bit_width, shape=shape, partitionable=config.threefry_partitionable, impl=_generator_of(keys)
    )


def random_wrap(words: Any, impl: Generator) -> Any:
    """Keys of the generator `impl` from words: uint32[..., *key_shape] -> key[...]."""
    return random_wrap_p.bind1(operands.lift(words), impl=impl)


def random_unwrap(keys: Any) -> Any:
    """Words of keys: key[...] -> uint32[..., *key_shape]."""
    return random_unwrap_p.bind1(keys, impl=_generator_of(keys))


def random_clone(keys: Any) -> Any:
    """The same keys: key[...] -> key[...]."""
    return random_clone_p.bind1(keys, impl=_generator_of(keys))
