# SPDX-License-Identifier: Apache-2.0
"""Trees of arrays as one vector, and back: `ravel_pytree`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, tree
from purax import numpy as pnp
from purax.errors import DTypeError, ShapeError, explain

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Lay the leaves of a tree end to end in one vector.

    Parameters
    ----------
    pytree : pytree of arrays

    Returns
    -------
    flat : Array
        One-dimensional, of the dtype at which the leaves meet; an empty float32 vector for a tree without leaves.
    unravel : callable
        Turns such a vector back into the tree. If all leaves have one dtype it takes any dtype and keeps it.

    Examples
    --------
    >>> flat, unravel = ravel_pytree({"a": pnp.ones((1, 2)), "b": pnp.zeros(())})
    >>> flat.shape, unravel(flat * 2)["a"].tolist()
    ((3,), [[2.0, 2.0]])
    """
    leaves, treedef = tree.flatten(pytree)
    if not leaves:
        return pnp.zeros(0, dtypes.float32), _Unravel(treedef, (), (), dtypes.float32)
    arrays = [pnp.asarray(leaf) for leaf in leaves]
    dtype = dtypes.result_type(*arrays)
    flat = pnp.concatenate([pnp.ravel(array).astype(dtype) for array in arrays])
    return flat, _Unravel(treedef, tuple(a.shape for a in arrays), tuple(a.dtype for a in arrays), dtype)


class _Unravel:
    """The way back. Equal for equal trees, so that it can be a static argument without tracing anew."""

    __slots__ = ("_dtype", "_dtypes", "_shapes", "_treedef")

    def __init__(self, treedef: Any, shapes: tuple[Any, ...], leaf_dtypes: tuple[Any, ...], dtype: Any) -> None:
        self._treedef, self._shapes, self._dtypes, self._dtype = treedef, shapes, leaf_dtypes, dtype

    def _key(self) -> tuple[Any, ...]:
        return self._treedef, self._shapes, self._dtypes, self._dtype

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unravel) and self._key() == other._key()

    def __call__(self, flat: Any) -> Any:
        sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self._shapes]
        flat = pnp.asarray(flat)
        if flat.shape != (sum(sizes),):
            raise ShapeError(
                explain(f"unravel got an array of shape {flat.shape}, but expected shape {(sum(sizes),)}.")
            )
        one_dtype = all(dtype == self._dtype for dtype in self._dtypes)
        if not one_dtype and flat.dtype != self._dtype:
            raise DTypeError(
                explain(
                    f"unravel got an array of dtype {flat.dtype}, but expected dtype {self._dtype}.",
                    "the leaves have several dtypes, and their values meet at that one only.",
                )
            )
        leaves, start = [], 0
        for shape, size, dtype in zip(self._shapes, sizes, self._dtypes, strict=True):
            leaf = flat[start : start + size].reshape(shape)
            leaves.append(leaf if one_dtype else _cast(leaf, dtype))
            start += size
        return self._treedef.unflatten(leaves)


def _cast(leaf: Any, dtype: Any) -> Any:
    # The way to complex had zero imaginary parts, so the way back drops nothing.
    if dtypes.is_complex(leaf.dtype) and not dtypes.is_complex(dtype):
        leaf = leaf.real
    return leaf.astype(dtype)
