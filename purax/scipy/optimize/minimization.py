# SPDX-License-Identifier: Apache-2.0
"""`minimize`: one function for all methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.scipy.optimize import bfgs

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """Result of `minimize`.

    Parameters
    ----------
    x : inexact[n]
        The last point.
    success : bool[]
        Whether the gradient is small there.
    status : int32[]
        0: success, 1: as many steps as allowed; what else ended the search depends on the method.
    fun, jac : float[], inexact[n]
        Value and gradient at `x`.
    hess_inv : float[n, n] or None
        Approximate inverse of the matrix of second derivatives (BFGS).
    nfev, njev, nit : int32[]
        Evaluations of the function and the gradient; steps.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def _bfgs(
    fun: Any,
    x0: Any,
    *,
    gtol: float = 1e-5,
    norm: Any = np.inf,
    maxiter: int | None = None,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    if dtypes.is_complex(x0.dtype):
        raise ValueError(
            f"minimize by BFGS takes a vector of reals to begin with, got {x0.dtype}; L-BFGS takes complex ones"
        )
    steps = 200 * x0.shape[0] if maxiter is None else maxiter
    end = bfgs.minimize_bfgs(fun, x0, gtol, norm, steps, line_search_maxiter)
    return _result(end, end.gradient, end.memory)


def _lbfgs(
    fun: Any, x0: Any, *, maxiter: Any = None, norm: Any = np.inf, maxcor: int = 10, ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-5, maxfun: Any = None, maxgrad: Any = None, maxls: int = 20,
) -> OptimizeResults:  # fmt: skip
    if maxiter is None and maxfun is None and maxgrad is None:
        maxiter = 200 * x0.shape[0]
    end = bfgs.minimize_lbfgs(fun, x0, maxiter, norm, maxcor, ftol, gtol, maxfun, maxgrad, maxls)
    return _result(end, pnp.conj(end.gradient), None)


def _result(end: bfgs.Minimum, gradient: Any, inverse: Any) -> OptimizeResults:
    return OptimizeResults(
        end.x, end.converged, end.status, end.value, gradient, inverse, end.evaluations, end.evaluations, end.steps
    )


_METHODS: dict[str, Callable[..., OptimizeResults]] = {
    "bfgs": _bfgs, "l-bfgs": _lbfgs, "l-bfgs-experimental-do-not-rely-on-this": _lbfgs,
}  # fmt: skip


def minimize(
    fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, method: str, tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:  # fmt: skip
    """Minimize a smooth function.

    Parameters
    ----------
    fun : callable
        `fun(x, *args)` -> float[].
    x0 : float[n]
        Where to begin; complex for L-BFGS only.
    args : tuple
    method : "BFGS" or "L-BFGS"
        The latter also by JAX's name "l-bfgs-experimental-do-not-rely-on-this".
    tol : float, optional
        Norm of the gradient that is small enough; `gtol` in the options.
    options : mapping, optional
        Both: `gtol` (1e-5), `norm` (inf), `maxiter` (200 n). BFGS: `line_search_maxiter` (10). L-BFGS: `maxcor` (10 moves are
        remembered), `ftol` (2.2e-9: a smaller decrease ends the search), `maxfun`, `maxgrad`, `maxls` (20).

    Returns
    -------
    OptimizeResults

    Raises
    ------
    TypeError
        `args` is no tuple, or an option that the method does not have.
    ValueError
        An unknown method, or `x0` is no vector.

    Notes
    -----
    Line searches satisfy the strong conditions of Wolfe (Nocedal and Wright, 2006, chapters 3, 6 and 7).
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: args is the tuple of what fun takes behind x, got {type(args).__name__}")
    run = _METHODS.get(method.lower())
    if run is None:
        raise ValueError(f"Method {method} not recognized; minimize knows 'BFGS' and 'L-BFGS'")
    given = ({} if tol is None else {"gtol": tol}) | dict(options or {})
    known = [name for name, p in inspect.signature(run).parameters.items() if p.kind is p.KEYWORD_ONLY]
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"minimize by {method} has no options {unknown}; it has {known}")
    (x0,) = promote_inexact("minimize", x0)
    if x0.ndim != 1:
        raise ValueError(f"minimize takes a vector to begin with, got {x0.dtype}{list(x0.shape)}")
    return run(lambda x: fun(x, *args), x0, **given)
