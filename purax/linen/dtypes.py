# SPDX-License-Identifier: Apache-2.0
"""Which dtype a layer computes in: that of its inputs and parameters together, unless `dtype` says otherwise."""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp

__all__ = ["canonicalize_dtype", "promote_dtype"]


def canonicalize_dtype(*args: Any, dtype: Any = None, inexact: bool = True) -> Any:
    """Return the dtype to compute in.

    Parameters
    ----------
    *args : Array or None
        Inputs and parameters.
    dtype : dtype, optional
        The answer, if given.
    inexact : bool
        Whether the result must be a float or complex dtype; integers promote to float32.

    Returns
    -------
    dtype

    Raises
    ------
    ValueError
        If `dtype` is not inexact and `inexact` is set.
    """
    if dtype is None:
        dtype = pnp.result_type(
            *(arg if hasattr(arg, "dtype") else pnp.asarray(arg) for arg in args if arg is not None)
        )
        if inexact and not pnp.issubdtype(dtype, pnp.inexact):
            dtype = pnp.promote_types(pnp.float32, dtype)
    if inexact and not pnp.issubdtype(dtype, pnp.inexact):
        raise ValueError(f"A layer computes in a float or complex dtype, got {dtype}.")
    return dtype


def promote_dtype(*args: Any, dtype: Any = None, inexact: bool = True) -> list[Any]:
    """Return the arguments in the dtype of `canonicalize_dtype`; None stays None.

    Parameters
    ----------
    args : array-like or None
    dtype : dtype, optional
    inexact : bool
        Integers, too, are computed in a float dtype.

    Returns
    -------
    list of Array or None
    """
    dtype = canonicalize_dtype(*args, dtype=dtype, inexact=inexact)
    return [None if arg is None else pnp.asarray(arg, dtype) for arg in args]
