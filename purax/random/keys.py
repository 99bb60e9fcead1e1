# SPDX-License-Identifier: Apache-2.0
"""Keys: made from a seed, split, folded with numbers; typed (`key`) or raw words (`PRNGKey`)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from purax import config, dtypes
from purax.control import key_reuse as _account  # noqa: F401  (obeys debug_key_reuse)
from purax.core.aval import array_aval
from purax.core.trace import aval_of, current
from purax.pipeline.evaluate import as_array
from purax.primitives import cast
from purax.primitives import counter_hash as _generators  # noqa: F401  (makes its generators known)
from purax.primitives import random_bits as primitives
from purax.primitives.random_bits import GENERATORS, Generator
from purax.primitives.shape import canonical_shape
from purax.runtime.array import wrap_host
from purax.transforms import keys as _words  # noqa: F401  (teaches the pipeline what keys are)

__all__ = ["PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split", "wrap_key_data"]


def generator_of(impl: Any) -> Generator:
    """The generator that a name, a key dtype or None (the default) stands for.

    Raises
    ------
    ValueError
        No generator has this name.
    TypeError
        `impl` is none of these.
    """
    if impl is None:
        return GENERATORS[config.default_prng_impl]
    if isinstance(impl, Generator):
        return impl
    if isinstance(impl, dtypes.KeyDtype):
        return impl.impl  # type: ignore[return-value]
    if isinstance(impl, str):
        if impl in GENERATORS:
            return GENERATORS[impl]
        names = ", ".join(f'"{name}"' for name in GENERATORS)
        raise ValueError(f'unrecognized PRNG implementation "{impl}". Did you mean one of: {names}?')
    raise TypeError(f"unrecognized type {type(impl)} for specifying PRNG implementation.")


def typed_key(name: str, given: Any, batched: bool = False) -> tuple[Any, bool]:
    """The typed key that an argument of the function `name` means, and whether it was given by its words.

    Raises
    ------
    TypeError
        It is no key and no array of uint32 words.
    ValueError
        It is an array of keys, and `batched` is false.
    """
    dtype = getattr(given, "dtype", None)
    raw = type(dtype) is not dtypes.KeyDtype
    result = _from_words(given) if raw else given
    if not batched and result.aval.ndim:
        raise ValueError(
            f"{name} draws from one key, got an array of keys of shape {result.aval.shape}; map over keys by purax.vmap"
        )
    return result, raw


def single_key(name: str, given: Any) -> Any:
    """The one typed key that an argument of the function `name` means; see `typed_key`."""
    aval = getattr(given, "aval", None)
    if aval is not None and aval.ndim == 0 and type(aval.dtype) is dtypes.KeyDtype:
        return given
    return typed_key(name, given)[0]


def _from_words(words: Any) -> Any:
    """Raw words as a key of the default generator; what `jax_legacy_prng_key` says of them is obeyed."""
    result = wrap(words, generator_of(None))
    mode = config.read("jax_legacy_prng_key")
    if mode != "allow":
        message = "a random key was given as plain uint32 words: make keys by random.key(), or set jax_legacy_prng_key to 'allow'"
        if mode == "error":
            raise ValueError(message)
        warnings.warn(message, stacklevel=5)
    return result


def wrap(words: Any, impl: Generator) -> Any:
    """Keys of a generator from their words, checked."""
    if not (hasattr(words, "aval") or isinstance(words, (np.ndarray, np.generic)) or hasattr(words, "__purax_array__")):
        raise TypeError(
            f"unexpected PRNG key type {type(words)}: a key of random.key, or an array of uint32 words, is needed"
        )
    aval, tail = aval_of(words), impl.key_shape
    if aval.ndim < len(tail) or aval.shape[aval.ndim - len(tail) :] != tail:
        raise TypeError(
            f"invalid PRNG key data: the shape of words of {impl.name} keys ends with {tail}, got shape={aval.shape}"
        )
    if aval.dtype != np.uint32:
        raise TypeError(f"invalid PRNG key data: words of keys have dtype uint32, got dtype={aval.dtype}")
    return primitives.random_wrap(words, impl)


def _seeded(name: str, seed: Any, impl: Any) -> Any:
    made = generator_of(impl)
    offset = config.read("jax_random_seed_offset")
    if offset:
        seed = seed + offset
    if type(seed) is int and current.get() is None:
        try:
            seed = np.int64(seed)
        except OverflowError:
            raise OverflowError(f"{name}: the seed {seed} has more than 64 bits; take it modulo 2**63") from None
    dtype = getattr(seed, "dtype", None)
    if type(dtype) is dtypes.KeyDtype:
        raise TypeError(f"{name} makes a key from an integer seed, and was given a key")
    if np.ndim(seed) if not hasattr(seed, "aval") else seed.aval.ndim:
        raise TypeError(
            f"{name} makes one key from one seed, got seeds of shape {np.shape(seed)}; map over seeds by purax.vmap"
        )
    return primitives.random_seed(seed, made)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Make a typed random key.

    Parameters
    ----------
    seed : integer scalar
        Taken modulo 2**32 (2**64 with `enable_x64`).
    impl : str or key dtype, optional
        Generator: "threefry2x32" (the default), "threefry4x32", "philox2x32", "philox4x32", "rbg" or "unsafe_rbg".
    dtype : key dtype, optional
        The same as `impl`.

    Returns
    -------
    key[]

    Raises
    ------
    TypeError
        The seed is no integer scalar.
    ValueError
        Unknown generator, or both `impl` and `dtype` are given.

    Examples
    --------
    >>> purax.random.key(0).dtype
    key<fry>
    """
    if dtype is not None:
        if impl is not None:
            raise ValueError("random.key: impl and dtype both name the generator; give one of them")
        impl = dtype
    return _seeded("key", seed, impl)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """Make a random key from an integer `seed` as raw words, uint32[2] (of other generators: uint32[4]); `impl` as in `key`."""
    return primitives.random_unwrap(_seeded("PRNGKey", seed, impl))


def fold_in(key: Any, data: Any) -> Any:
    """Make a new key from a key and a number.

    Parameters
    ----------
    key : key[] or uint32[2]
    data : integer scalar
        Taken modulo 2**32.

    Returns
    -------
    key like `key`

    Raises
    ------
    TypeError
        `data` is not one number.
    """
    typed, raw = typed_key("fold_in", key)
    if type(data) is int and 0 <= data < 1 << 32:
        data = wrap_host(_SCALAR, np.asarray(data, np.uint32))
    else:
        aval = aval_of(data)
        if aval.ndim:
            raise TypeError(f"fold_in takes one number, got shape {aval.shape}; map over numbers by purax.vmap")
        if isinstance(data, int):
            data = np.uint32(data) if data >= 0 else np.int32(data)  # raises OverflowError beyond 32 bits
        data = cast.convert_element_type(data, np.uint32)
    folded = primitives.random_fold_in(typed, data)
    return primitives.random_unwrap(folded) if raw else folded


_SCALAR = array_aval((), np.dtype(np.uint32))


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """Make new keys from a key.

    Parameters
    ----------
    key : key[] or uint32[2]
    num : int or tuple of int
        How many, or the shape of the array of keys.

    Returns
    -------
    keys like `key`
        With leading axes `num`.

    Examples
    --------
    >>> purax.random.split(purax.random.key(0), 3).shape
    (3,)
    """
    typed, raw = typed_key("split", key)
    made = primitives.random_split(typed, canonical_shape(num))
    return primitives.random_unwrap(made) if raw else made


def clone(key: Any) -> Any:
    """The same key, of the same shape and dtype, to be used once more on purpose."""
    typed, raw = typed_key("clone", key, batched=True)
    return key if raw else primitives.random_clone(typed)


def key_data(keys: Any) -> Any:
    """The words of keys: key[...] -> uint32[..., 2] (of other generators: 4)."""
    typed, raw = typed_key("key_data", keys, batched=True)
    return as_array(keys) if raw else primitives.random_unwrap(typed)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Keys from their words: uint32[..., 2] -> key[...]. `impl` and `dtype` as in `key`.

    Parameters
    ----------
    key_bits_array : uint32[..., 2]
        Of other generators: 4.
    impl, dtype : optional
        The generator, as in `key`.

    Returns
    -------
    key[...]

    Raises
    ------
    ValueError
        Both `impl` and `dtype`.
    """
    if dtype is not None:
        if impl is not None:
            raise ValueError("random.wrap_key_data: impl and dtype both name the generator; give one of them")
        impl = dtype
    return wrap(key_bits_array, generator_of(impl))


def key_impl(keys: Any) -> Any:
    """The generator of keys: its name, a text, or itself when it has no registered name."""
    typed, _ = typed_key("key_impl", keys, batched=True)
    found: Generator = typed.aval.dtype.impl
    return found.name if GENERATORS.get(found.name) is found else found


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDtype:
    """The dtype of keys of a generator (None: the default).

    Examples
    --------
    >>> purax.random.key_dtype("rbg")
    key<rbg>
    """
    return generator_of(impl_spec).dtype
