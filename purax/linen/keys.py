# SPDX-License-Identifier: Apache-2.0
"""Random keys named by a path: what each module, parameter and dropout mask draws from.

A stream starts as a key given to `init` or `apply`. A module at path ("encoder", "Dense_0") folds the names of its path and
a counter into that key: the first four bytes of a SHA-1 over their text. So a draw depends on where it stands and not on what
was drawn elsewhere, and equals Flax's draw for the same key and path.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np

from purax import random
from purax.linen._support import register_node

__all__ = ["LazyRng"]


@lru_cache(maxsize=4096)
def _digest(suffix: tuple[str | int, ...]) -> np.uint32:
    sha1 = hashlib.sha1(usedforsecurity=False)
    for part in suffix:
        if isinstance(part, str):
            sha1.update(part.encode("utf-8"))
        else:
            sha1.update(part.to_bytes((part.bit_length() + 7) // 8, byteorder="big"))
    return np.uint32(int.from_bytes(sha1.digest()[:4], byteorder="big"))


class LazyRng:
    """A key and the names that are still to be folded into it. A pytree: the key is a leaf, the names are static.

    Parameters
    ----------
    rng : key
        Typed or raw random key.
    suffix : tuple of str and int
        Names of the path so far.
    """

    __slots__ = ("rng", "suffix")

    def __init__(self, rng: Any, suffix: tuple[str | int, ...] = ()) -> None:
        self.rng = rng
        self.suffix = suffix

    @classmethod
    def create(cls, rng: Any, *suffix: str | int) -> LazyRng:
        """Append names to a LazyRng or to a key."""
        if isinstance(rng, LazyRng):
            return cls(rng.rng, rng.suffix + suffix)
        return cls(rng, suffix)

    def as_jax_rng(self) -> Any:
        """Return the key with all names folded in."""
        if not self.suffix:
            return self.rng
        return random.fold_in(self.rng, _digest(self.suffix))

    def clear_suffix(self) -> LazyRng:
        """Return the stream without its names."""
        return LazyRng(self.rng)


register_node(LazyRng, lambda lazy: ((lazy.rng,), lazy.suffix), lambda suffix, keys: LazyRng(keys[0], suffix))
