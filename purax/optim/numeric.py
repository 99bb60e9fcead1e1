# SPDX-License-Identifier: Apache-2.0
"""Numbers made safe: counters that do not wrap, norms with a floor and a gradient at zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp
from purax.numpy import linalg

__all__ = [
    "abs_sq",
    "safe_increment",
    "safe_int32_increment",
    "safe_norm",
    "safe_root_mean_squares",
]


def abs_sq(x: Any) -> Any:
    """Return the squared magnitude of each element.

    Parameters
    ----------
    x : inexact[...]
        Real or complex.

    Returns
    -------
    real[...]
        x * x, or re(x)**2 + im(x)**2 for complex x.
    """
    if pnp.issubdtype(pnp.result_type(x), np.complexfloating):
        return pnp.square(pnp.real(x)) + pnp.square(pnp.imag(x))
    return pnp.square(x)


def safe_increment(count: Any) -> Any:
    """Add one to a counter, and stay at the largest value of its dtype instead of wrapping.

    Parameters
    ----------
    count : integer or floating scalar
        A step counter.

    Returns
    -------
    scalar of the same dtype
        min(count + 1, largest value).
    """
    count = pnp.asarray(count)
    dtype = count.dtype
    limit = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else pnp.finfo(dtype).max
    limit = np.asarray(limit, dtype)
    return pnp.where(count < limit, count + np.asarray(1, dtype), limit)


safe_int32_increment = safe_increment


def safe_norm(
    x: Any,
    min_norm: Any,
    ord: int | float | str | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Any:
    """Return max(norm(x), min_norm), with gradient zero wherever the floor is what counts.

    Parameters
    ----------
    x : inexact[...]
        The vector or matrix.
    min_norm : float
        The floor.
    ord, axis, keepdims
        As in `purax.numpy.linalg.norm`.

    Returns
    -------
    real[...]
        The norm, never below min_norm.
    """
    norm = linalg.norm(x, ord=ord, axis=axis, keepdims=True)
    inner = pnp.where(norm <= min_norm, pnp.ones_like(x), x)
    norm = norm if keepdims else pnp.squeeze(norm, axis=axis)
    return pnp.where(norm <= min_norm, min_norm, linalg.norm(inner, ord=ord, axis=axis, keepdims=keepdims))


def safe_root_mean_squares(x: Any, min_rms: Any) -> Any:
    """Return max(sqrt(mean(|x|^2)), min_rms), with gradient zero wherever the floor is what counts.

    Parameters
    ----------
    x : inexact[...]
        Any shape; all elements enter one mean.
    min_rms : float
        The floor.

    Returns
    -------
    real[]
        The root mean square, never below min_rms.
    """
    rms = pnp.sqrt(pnp.mean(abs_sq(x)))
    inner = pnp.where(rms <= min_rms, pnp.ones_like(x), x)
    return pnp.where(rms <= min_rms, min_rms, pnp.sqrt(pnp.mean(abs_sq(inner))))
