# SPDX-License-Identifier: Apache-2.0
"""The polar form of matrices."""

from __future__ import annotations

from typing import Any

from purax.control.custom import custom_jvp
from purax.numpy.norms import adjoint, matrices_of, widened
from purax.primitives import factoring
from purax.primitives import linalg as factors
from purax.scipy.linalg.factorizations import times
from purax.scipy.linalg.functions import solve_sylvester

__all__ = ["polar"]


@custom_jvp
def _unitary(a: Any) -> Any:
    """The factor u of a = u p, for matrices [..., m, n], m >= n."""
    left, _, vh = factors.svd(a, full_matrices=False)
    return times(left, vh)


@_unitary.defjvp
def _unitary_rule(primals: Any, tangents: Any) -> Any:
    """du = u x + (1 - u u^H) da p^-1 with p x + x p = u^H da - da^H u.

    It needs no derivatives of singular vectors, which do not exist where singular values are equal: u has one if none is zero.
    """
    (a,), (da,) = primals, tangents
    u = _unitary(a)
    p, inner = times(adjoint(u), a), times(adjoint(u), da)
    change = times(u, solve_sylvester(p, p, inner - adjoint(inner), tol=0.0))
    if a.shape[-2] > a.shape[-1]:
        change = change + adjoint(factors.linear_solve(adjoint(p), adjoint(da - times(u, inner))))
    return u, change


def polar(
    a: Any, side: str = "right", *, method: str = "qdwh", eps: float | None = None, max_iterations: int | None = None
) -> tuple[Any, Any]:
    """Polar form of matrices: a = u p (side "right") or a = p u ("left").

    Parameters
    ----------
    a : inexact[..., m, n]
    side : "right" or "left"
    method : "qdwh" or "svd"
        Both names give the singular value decomposition, which needs no `eps` and `max_iterations`.
    eps, max_iterations : optional
        Not needed.

    Returns
    -------
    u : inexact[..., m, n]
        With orthonormal columns, or rows if there are more columns than rows.
    p : inexact[..., n, n] or [..., m, m]
        Positive semidefinite.

    Raises
    ------
    ValueError
        Another side or method.

    References
    ----------
    N. J. Higham, "Functions of matrices" (2008), chapter 8.
    """
    if side not in ("right", "left"):
        raise ValueError(f"polar: side is 'right' or 'left', got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"polar: method is 'qdwh' or 'svd', got {method!r}")
    a = matrices_of("linalg.polar", a)

    def decompose(x: Any) -> tuple[Any, Any]:
        u = _unitary(x) if x.shape[-2] >= x.shape[-1] else adjoint(_unitary(adjoint(x)))
        return u, factoring.symmetrized(times(adjoint(u), x) if side == "right" else times(x, adjoint(u)))

    return widened(decompose, a)
