# SPDX-License-Identifier: Apache-2.0
"""An initial value problem as the solver sees it: a list of leaves and its rate of change, closed over nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax import numpy as pnp
from purax.control.closure import closure_convert
from purax.transforms.flat import check_arrays, name_of

__all__ = ["Problem", "direction"]


class Problem:
    """The user's arguments, checked.

    Parameters
    ----------
    func, y0, t, args
        As given to `odeint`.

    Attributes
    ----------
    rate : callable
        `rate(leaves, t, args)`: leaves of the derivative, with the types of `leaves`.
    leaves : list of inexact[...]
        Of the initial state, whose structure is `tree`.
    t : float[n]
    args : tuple
        The user's arguments, and after them what `func` captured.
    """

    def __init__(self, func: Callable[..., Any], y0: Any, t: Any, args: tuple[Any, ...]) -> None:
        flat, self.tree = tree.flatten(y0)
        check_arrays("odeint", flat, lambda: ["y0" + tree.keystr(p) for p, _ in tree.leaves_with_path(y0)])
        check_arrays(
            "odeint", tree.leaves(args), lambda: ["args" + tree.keystr(p) for p, _ in tree.leaves_with_path(args)]
        )
        check_arrays("odeint", [t], lambda: ["t"])
        t = pnp.asarray(t)
        if not dtypes.issubdtype(t.dtype, np.floating):
            raise errors.DTypeError(
                errors.explain(
                    f"odeint: t must be an array of floats, but got {t.dtype}{list(t.shape)}.",
                    "",
                    "Write t.astype(float).",
                )
            )
        if t.ndim != 1 or t.size == 0:
            raise errors.ShapeError(
                errors.explain(
                    f"odeint: t must be a vector of times, but has shape {t.shape}.", "y0 is the state at t[0]."
                )
            )
        self.t = t
        self.leaves = [x.astype(dtypes.to_inexact(x.dtype)) for x in map(pnp.asarray, flat)]
        converted, captured = closure_convert(func, self.tree.unflatten(self.leaves), t[0], *args)
        self.args = (*args, *captured)
        self._func, self._name = converted, name_of(func)

    def rate(self, leaves: list[Any], t: Any, args: tuple[Any, ...]) -> list[Any]:
        """Leaves of the derivative."""
        found, found_tree = tree.flatten(self._func(self.tree.unflatten(leaves), t, *args))
        found = [pnp.asarray(x) for x in found]
        if found_tree != self.tree or any(a.shape != b.shape for a, b in zip(found, leaves, strict=True)):
            found = self._split(found, leaves)
        return [_as(x, like.dtype) for x, like in zip(found, leaves, strict=True)]

    def _split(self, found: list[Any], leaves: list[Any]) -> list[Any]:
        """The derivative in another structure, such as a list of the entries of a vector: end to end it is the same."""
        if sum(x.size for x in found) != sum(x.size for x in leaves):
            raise errors.ShapeError(
                errors.explain(
                    f"odeint: {self._name} returned shapes {[x.shape for x in found]}, but the state has shapes {[x.shape for x in leaves]}.",
                    "each entry of the state needs its derivative.",
                )
            )
        flat = pnp.concatenate([x.ravel() for x in found])
        ends = np.cumsum([x.size for x in leaves])
        return [flat[end - x.size : end].reshape(x.shape) for end, x in zip(ends.tolist(), leaves, strict=True)]


def _as(x: Any, dtype: Any) -> Any:
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype):
        raise errors.DTypeError(
            errors.explain(
                f"odeint: the derivative has dtype {x.dtype}, but the state has dtype {dtype}.",
                "the imaginary part would be lost.",
                f"Start from y0.astype({x.dtype.name!r}).",
            )
        )
    return x.astype(dtype)


def direction(ts: Any) -> Any:
    """1 where the times rise, -1 where they fall."""
    return pnp.where(ts[-1] >= ts[0], 1, -1).astype(ts.dtype)
