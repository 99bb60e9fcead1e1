# SPDX-License-Identifier: Apache-2.0
"""Integrals of sampled functions.

Results have the inexact dtype of the samples, and their shape without the axis.
"""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp

__all__ = ["trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral of samples by the trapezoidal rule, as `purax.numpy.trapezoid`.

    Parameters
    ----------
    y : array[..., n, ...]
        The samples.
    x : array[n], optional
        Where they were taken; else `dx` is the distance between them.
    dx : float
    axis : int

    Returns
    -------
    inexact array of the shape of `y` without the axis
    """
    return pnp.trapezoid(y, x, dx, axis)
