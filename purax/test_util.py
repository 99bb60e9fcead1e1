# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.test_util`: derivatives checked against central differences along random directions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, tree
from purax.core.trace import aval_of
from purax.primitives.base import is_differentiable
from purax.transforms.jvp import jvp
from purax.transforms.vjp import vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]

_TOLERANCES = {
    dtypes.bfloat16: 1e-1, dtypes.float16: 1e-2, dtypes.float32: 2e-3, dtypes.float64: 1e-5, dtypes.complex64: 2e-3,
    dtypes.complex128: 1e-5,
}  # fmt: skip
_NARROW_TOLERANCE = 0.2  # of floats of 8 bits and fewer


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Sequence[Any], atol: Any = None, rtol: Any = None,
    eps: float | None = None, err_msg: str = "",
) -> None:  # fmt: skip
    """Check the tangents that `f_jvp` gives against differences of `f`.

    Parameters
    ----------
    f : callable
        Function of arrays or pytrees of arrays.
    f_jvp : callable
        `(primals, tangents) -> (output, output tangent)`, such as `functools.partial(jvp, f)`.
    args : sequence
        Where to differentiate.
    atol, rtol : float or dict of dtype to float, optional
    eps : float, optional
        Half the distance of the points of a difference; by default it fits the narrowest dtype of `args`.
    err_msg : str
        Comes before the message.

    Raises
    ------
    AssertionError
        Outputs or tangents differ.
    """
    args = tuple(args)
    direction = _reachable(args, tree.map(_random_like(np.random.RandomState(0)), args), eps)
    out, tangent = f_jvp(args, direction)
    _assert_close(out, f(*args), atol, rtol, f"{err_msg} output of the JVP")
    _assert_close(tangent, _difference(f, args, direction, eps), atol, rtol, f"{err_msg} JVP tangent")


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Sequence[Any], atol: Any = None, rtol: Any = None,
    eps: float | None = None, err_msg: str = "",
) -> None:  # fmt: skip
    """Check the cotangents that `f_vjp` gives against differences of `f`: both make the same inner product.

    Parameters
    ----------
    f, args, atol, rtol, eps, err_msg
        As in `check_jvp`.
    f_vjp : callable
        `*primals -> (output, pullback)`, such as `functools.partial(vjp, f)`.

    Raises
    ------
    AssertionError
        Outputs or inner products differ.
    """
    args = tuple(args)
    out, pullback = f_vjp(*args)
    _assert_close(out, f(*args), atol, rtol, f"{err_msg} output of the VJP")
    random = _random_like(np.random.RandomState(1))
    direction = _reachable(args, tree.map(random, args), eps)
    weight = tree.map(random, out)
    found = _inner(direction, pullback(weight))
    expected = _inner(_difference(f, args, direction, eps), weight)
    kinds = [_dtype(x) for x in tree.leaves((args, out)) if is_differentiable(_dtype(x))]
    limits = [max((_limit(given, kind) for kind in kinds), default=0.0) for given in (atol, rtol)]
    np.testing.assert_allclose(found, expected, atol=limits[0], rtol=limits[1], err_msg=f"{err_msg} VJP inner product")


def check_grads(
    f: Callable[..., Any], args: Sequence[Any], order: int, modes: str | Sequence[str] = ("fwd", "rev"), atol: Any = None,
    rtol: Any = None, eps: float | None = None,
) -> None:  # fmt: skip
    """Check derivatives of `f` up to an order, in forward and reverse mode and in all their combinations.

    Parameters
    ----------
    f, args, atol, rtol, eps
        As in `check_jvp`.
    order : int
    modes : "fwd", "rev" or a sequence of these

    Raises
    ------
    AssertionError
        A derivative differs from a difference; the message tells the order and the modes.
    ValueError
        Another mode, or an order below 1.

    Examples
    --------
    >>> from purax import numpy as pnp
    >>> check_grads(pnp.sin, (1.0,), order=2)
    """
    chosen = (modes,) if isinstance(modes, str) else tuple(modes)
    if not set(chosen) <= {"fwd", "rev"}:
        raise ValueError(f"check_grads: modes are 'fwd' and 'rev', got {modes!r}")
    if order < 1:
        raise ValueError(f"check_grads: order must be at least 1, got {order}")

    def check(f: Callable[..., Any], left: int, path: str) -> None:
        random = _random_like(np.random.RandomState(2))
        for mode in chosen:
            here = f"{path}, {mode}" if path else f"order {order}: {mode}"
            if mode == "fwd":
                check_jvp(f, functools.partial(jvp, f), args, atol, rtol, eps, here)
                derivative = functools.partial(_jvp_along, f, tree.map(random, tuple(args)))
            else:
                check_vjp(f, functools.partial(vjp, f), args, atol, rtol, eps, here)
                derivative = functools.partial(_vjp_of, f, tree.map(random, f(*args)))
            if left > 1:
                check(derivative, left - 1, here)

    check(f, order, "")


def _jvp_along(f: Callable[..., Any], direction: Any, *args: Any) -> Any:
    return jvp(f, args, direction)


def _vjp_of(f: Callable[..., Any], weight: Any, *args: Any) -> Any:
    return vjp(f, *args)[1](weight)


def _dtype(x: Any) -> Any:
    return np.dtype(dtypes.float0) if getattr(x, "dtype", None) == dtypes.float0 else aval_of(x).dtype


def _random_like(rng: np.random.RandomState) -> Callable[[Any], np.ndarray]:
    def draw(x: Any) -> np.ndarray:
        dtype, shape = _dtype(x), np.shape(x)
        if not is_differentiable(dtype):
            return np.zeros(shape, dtypes.float0)
        values = rng.standard_normal(shape)
        return np.asarray(values + 1j * rng.standard_normal(shape) if dtypes.is_complex(dtype) else values).astype(
            dtype
        )

    return draw


def _wide(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)


def _step(args: Any) -> float:
    """The square root of the precision: more to the side of rounding than of truncation, so that kinks are rarely stepped over."""
    kinds = [_dtype(x) for x in tree.leaves(args) if is_differentiable(_dtype(x))]
    return float(max((float(dtypes.finfo(kind).eps) for kind in kinds), default=1.0)) ** 0.5


def _reachable(args: Any, direction: Any, eps: float | None) -> Any:
    """The direction, changed a little so that the points of `_difference` along it are numbers of the dtypes of the arguments."""
    width = _step(args) if eps is None else eps

    def reachable(x: Any, t: Any) -> Any:
        dtype = _dtype(x)
        if t.dtype == dtypes.float0 or dtype not in _FINE:
            return t
        real = _FINE[dtype]
        here, way = (np.asarray(v).astype(dtype)[..., None].view(real).astype(np.float64) for v in (x, t))
        with np.errstate(invalid="ignore"):
            grid = 2.0 * np.spacing((abs(here) + width * abs(way)).astype(real))
            found = np.where(np.isfinite(grid), np.round(width * way / grid) * grid / width, way)
        return found.astype(real).view(dtype)[..., 0]

    return tree.map(reachable, args, direction)


_FINE = {
    dtypes.float32: np.float32, dtypes.complex64: np.float32, dtypes.float64: np.float64, dtypes.complex128: np.float64,
}  # fmt: skip


def _difference(f: Callable[..., Any], args: tuple[Any, ...], direction: Any, eps: float | None) -> Any:
    """Central difference of `f` along a direction; float0 for outputs that have no tangent.

    Where all arguments are of 32 bits or more, two widths are combined so that what is quadratic in the width drops out.
    """
    eps = _step(args) if eps is None else eps

    def moved(by: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            return x if t.dtype == dtypes.float0 else (_wide(x) + by * _wide(t)).astype(_dtype(x))

        return f(*tree.map(move, args, direction))

    def across(width: float) -> Any:
        def slope(high: Any, low: Any) -> Any:
            if not is_differentiable(_dtype(high)):
                return np.zeros(np.shape(high), dtypes.float0)
            return (_wide(high) - _wide(low)) / (2 * width)

        return tree.map(slope, moved(width), moved(-width))

    whole = across(eps)
    if any(is_differentiable(_dtype(x)) and _dtype(x) not in _FINE for x in tree.leaves((args, whole))):
        return whole
    return tree.map(lambda w, h: w if w.dtype == dtypes.float0 else (4 * h - w) / 3, whole, across(eps / 2))


def _inner(xs: Any, ys: Any) -> float:
    """Sum over all leaves of the real part of the products; leaves without tangents count nothing."""
    pairs = zip(tree.leaves(xs), tree.leaves(ys), strict=True)
    return float(
        sum(np.sum((_wide(x) * _wide(y)).real) for x, y in pairs if dtypes.float0 not in (_dtype(x), _dtype(y)))
    )


def _limit(given: Any, kind: Any) -> float:
    if given is not None and not isinstance(given, dict):
        return float(given)
    named = {dtypes.named(key): value for key, value in (given or {}).items()}
    return float(named.get(kind, _TOLERANCES.get(kind, _NARROW_TOLERANCE)))


def _assert_close(found: Any, expected: Any, atol: Any, rtol: Any, message: str) -> None:
    for x, y in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        kind = _dtype(x)
        if not is_differentiable(kind):
            continue
        np.testing.assert_allclose(
            _wide(x), _wide(y), atol=_limit(atol, kind), rtol=_limit(rtol, kind), err_msg=message
        )
