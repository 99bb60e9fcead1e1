# SPDX-License-Identifier: Apache-2.0
"""Sums of exponentials by their logarithms: `logsumexp`, which `nn` and `scipy.special` offer (NumPy has no such name)."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.control.jit import jit
from purax.core.trace import aval_of
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.numpy.reduction import max as largest
from purax.numpy.reduction import sum as total_of
from purax.numpy.selection import where as choose
from purax.primitives import complex as parts
from purax.primitives import elementwise as ops
from purax.primitives import shape as shapes
from purax.primitives.stop_gradient import stop_gradient

__all__ = ["logsumexp"]


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """The logarithm of the sum of exponentials, without overflow.

    Parameters
    ----------
    a : inexact[...]
    axis : int, sequence of int or None
        Over which to sum (None: all).
    b : float[...], optional
        Factors of the exponentials; broadcast against `a`. Terms with factor 0 are left out.
    keepdims : bool
        Keep the summed axes with size 1.
    return_sign : bool
        Return the logarithm of the sum's magnitude, and its sign.
    where : bool[...], optional
        Terms that take part.

    Returns
    -------
    array, or a pair of arrays
        Without `return_sign`, NaN where the sum is negative; -inf where there is nothing to sum.
    """
    check_arraylike("logsumexp", a)
    if where is not None:
        a = choose(where, a, 0)
    if b is not None:
        check_arraylike("logsumexp", b)
        a, b = promote_dtypes_inexact(a, b)
        a = choose(b != 0, a, -np.inf)
    else:
        (a,) = promote_dtypes_inexact(a)
    return _logsumexp(
        a,
        b,
        where,
        axis=axis if axis is None else shapes.canonical_axes(axis, aval_of(a).ndim),
        keepdims=keepdims,
        return_sign=return_sign,
    )


def _logsumexp_formula(a: Any, b: Any, where: Any, *, axis: Any, keepdims: bool, return_sign: bool) -> Any:
    size = parts.real(a) if dtypes.is_complex(a.dtype) else a
    least = None if where is None and aval_of(a).size else -np.inf
    top = stop_gradient(largest(size, axis=axis, keepdims=True, where=where, initial=least))
    top = choose(ops.is_finite(top), top, 0)
    powers = ops.exp(a - top.astype(a.dtype))
    total = total_of(powers if b is None else powers * b, axis=axis, keepdims=keepdims, where=where)
    sign = ops.sign(total)
    real = not dtypes.is_complex(aval_of(total).dtype)
    if return_sign or real:
        total = ops.abs(total)
    empty = total == 0  # of terms that are all -inf: no direction to go, so the slope is 0, not the NaN of 0 / 0
    log = choose(empty, stop_gradient(ops.log(total)), ops.log(choose(empty, 1, total)))
    out = log + shapes.reshape(top, aval_of(total).shape).astype(aval_of(total).dtype)
    if return_sign:
        return out, sign
    return choose(sign < 0, np.nan, out) if b is not None and real else out


_logsumexp = jit(_logsumexp_formula, static_argnames=("axis", "keepdims", "return_sign"))
