# SPDX-License-Identifier: Apache-2.0
"""A generator of random numbers that keeps count by itself, with the methods of NumPy's generators.

Draw number n uses the key that is the base key folded with n; n lies in a mutable reference, so that draws in a program count on
outside of it.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax import numpy as pnp
from purax import random as keys
from purax.control.refs import Ref, new_ref
from purax.core.trace import current
from purax.primitives.shape import broadcast_shapes
from purax.tree.nodes import register_dataclass

__all__ = ["StatefulPRNG", "stateful_rng"]

Size = int | Sequence[int] | None


def _sizes(size: Size, *parameters: Any) -> tuple[int, ...]:
    """The shape of a draw: that of the parameters where none is given."""
    if size is None:
        return broadcast_shapes(*(np.shape(p) for p in parameters))
    if isinstance(size, (int, np.integer)):
        return (operator.index(size),)
    return tuple(operator.index(n) for n in size)


@register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class StatefulPRNG:
    """A generator; made by `stateful_rng`. It may be an argument of programs, but no result and no carry of a loop.

    Parameters
    ----------
    base_key : key[]
    counter : reference to an integer scalar
        How many keys were made.

    Raises
    ------
    ValueError
        The base key is no typed key, or the counter no reference.
    """

    _base_key: Any
    _counter: Ref

    def __post_init__(self) -> None:
        dtype = getattr(self._base_key, "dtype", None)
        if dtype is not None and not isinstance(dtype, dtypes.KeyDtype):
            raise ValueError(f"the base key of a StatefulPRNG is a typed key, from random.key(), got dtype {dtype}")
        if isinstance(self._counter, (int, np.generic, np.ndarray)):
            raise ValueError(f"the counter of a StatefulPRNG is a reference, from new_ref(0), got {self._counter!r}")

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A key (or an array of keys) that was never given before.

        Parameters
        ----------
        shape : int or sequence of int

        Returns
        -------
        key[shape]

        Raises
        ------
        ShapeError
            This is a stack of generators, from `split`: map over it by `vmap`.
        """
        if self._base_key.shape:
            raise errors.ShapeError(
                f"a stack of {self._base_key.shape} generators draws nothing by itself; map over it by purax.vmap"
            )
        key = keys.fold_in(self._base_key, self._counter[...])
        self._counter.addupdate(1)
        sizes = _sizes(shape)
        return keys.split(key, sizes) if sizes else key

    def random(self, size: Size = None, dtype: Any = float) -> Any:
        """Uniform numbers float[size] from [0, 1)."""
        return keys.uniform(self.key(), _sizes(size), dtype)

    def uniform(self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Uniform numbers float[size] from [low, high).

        Parameters
        ----------
        low, high : real[...]
        size : int or sequence of int, optional
            The parameters' common shape by default.
        dtype : floating dtype
        """
        return keys.uniform(self.key(), _sizes(size, low, high), dtype, low, high)

    def normal(self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float) -> Any:
        """Normal numbers float[size] with mean `loc` and standard deviation `scale`. Parameters as for `uniform`."""
        drawn = keys.normal(self.key(), _sizes(size, loc, scale), dtype)
        return pnp.asarray(loc, drawn.dtype) + pnp.asarray(scale, drawn.dtype) * drawn

    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Any:
        """Integers [size] from [low, high), or from [0, low). Parameters as for `uniform`."""
        if high is None:
            low, high = 0, low
        return keys.randint(self.key(), _sizes(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """A stack of `num` independent generators, to be mapped over by `vmap`."""
        return StatefulPRNG(self.key(num), new_ref(pnp.zeros(num, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of independent generators."""
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """Make a generator that keeps count of its draws.

    Parameters
    ----------
    seed : integer scalar, optional
        By default from the operating system; must be given inside of transformed functions.
    impl : str or key dtype, optional
        Kind of key; see `random.key`.

    Returns
    -------
    StatefulPRNG

    Raises
    ------
    TypeError
        No seed is given inside of a transformed function.

    Examples
    --------
    >>> rng = stateful_rng(0)
    >>> bool(rng.uniform() != rng.uniform())
    True
    """
    if seed is None:
        if current.get() is not None:
            raise TypeError(
                "stateful_rng inside of a transformed function needs a seed: a program has no chance of its own"
            )
        entropy = np.random.SeedSequence().entropy
        seed = np.int64(int(entropy) & np.iinfo(np.int64).max)  # type: ignore[arg-type]
    return StatefulPRNG(keys.key(seed, impl=impl), new_ref(0))
