# SPDX-License-Identifier: Apache-2.0
"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax import numpy as pnp
from purax import random
from purax.linen.declare import compact
from purax.linen.module import Module, merge_param

__all__ = ["Dropout"]


class Dropout(Module):
    """Set a random part of the input to zero and scale the rest by `1 / (1 - rate)`, so that the mean stays.

    Parameters
    ----------
    rate : float
        Probability of zero.
    broadcast_dims : sequence of int
        Axes along which one draw holds for all.
    deterministic : bool, optional
        True to return the input as it is; given here or at the call.
    rng_collection : str
        Random stream to draw from.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> layer = linen.Dropout(0.5, deterministic=False)
    >>> layer.apply({}, pnp.ones((2, 3)), rngs={"dropout": random.key(0)}).shape
    (2, 3)
    """

    rate: float
    broadcast_dims: Sequence[int] = ()
    deterministic: bool | None = None
    rng_collection: str = "dropout"

    @compact
    def __call__(self, inputs: Any, deterministic: bool | None = None, rng: Any = None) -> Any:
        """Drop parts of `inputs`, with the key `rng` if given."""
        deterministic = merge_param("deterministic", self.deterministic, deterministic)
        if self.rate == 0.0 or deterministic:
            return inputs
        if self.rate == 1.0:
            return pnp.zeros_like(inputs)
        keep = 1.0 - self.rate
        if rng is None:
            rng = self.make_rng(self.rng_collection)
        shape = list(inputs.shape)
        for axis in self.broadcast_dims:
            shape[axis] = 1
        mask = random.bernoulli(rng, p=keep, shape=tuple(shape))
        return pnp.where(mask, inputs / keep, pnp.zeros((), inputs.dtype))
