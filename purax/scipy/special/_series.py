# SPDX-License-Identifier: Apache-2.0
"""How the functions of this folder are made: elementwise primitives computed in float64, and Chebyshev series for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.numpy.promotion import promote_inexact
from purax.primitives.cast import convert_element_type
from purax.primitives.family import Elementwise

__all__ = ["apply", "chebyshev", "double", "in_double", "split_square", "whole_line"]


def apply(primitive: Elementwise, *operands: Any) -> Any:
    """Promote the operands to one inexact dtype and shape, and bind them."""
    return primitive.bind1(*promote_inexact(primitive.name, *operands))


def in_double(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula, computed in float64 (complex128) and rounded to the dtype of the first operand."""

    @functools.wraps(formula)
    def compute(*xs: Any, **params: Any) -> Any:
        dtype = xs[0].aval.dtype
        wide = np.dtype(np.complex128 if dtypes.is_complex(dtype) else np.float64)
        if dtype == wide:
            return formula(*xs, **params)
        return convert_element_type(formula(*[convert_element_type(x, wide) for x in xs], **params), dtype)

    return compute


def double(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A `lower` rule that writes a formula in float64."""
    return lambda b, ins, outs, **params: b.inline(in_double(formula), ins, **params)


@functools.cache
def _coefficients(function: Callable[[Any], Any], low: float, high: float, size: int) -> tuple[float, ...]:
    """Coefficients of the polynomial that meets `function` at Chebyshev's points of [low, high], small last ones cut."""
    angles = (np.arange(size) + 0.5) * np.pi / size
    points = (high - low) / 2 * np.cos(angles) + (high + low) / 2
    found = np.cos(np.outer(np.arange(size), angles)) @ np.asarray(function(points), np.float64) * (2 / size)
    found[0] /= 2
    large = np.flatnonzero(np.abs(found) > 1e-17 * np.abs(found).max())
    return tuple(found[: large[-1] + 1].tolist())


def chebyshev(function: Callable[[Any], Any], low: float, high: float, size: int, x: Any) -> Any:
    """Series of a NumPy function (defined at the top of a module, so that its series is kept) at x in [low, high]."""
    first, *rest = _coefficients(function, low, high, size)
    t = (x - (high + low) / 2) * (2 / (high - low))
    after, last = pnp.zeros_like(t), pnp.zeros_like(t)
    for coefficient in rest[::-1]:
        after, last = 2 * t * after - last + coefficient, after
    return t * after - last + first


def whole_line(x: Any, middle: float) -> Any:
    """Map [0, inf] to [-1, 1]: (x - middle) / (x + middle)."""
    return 1 - 2 * middle / (x + middle)


def split_square(x: Any) -> Any:
    """exp(-x^2), with the rounding error of the square taken into account."""
    coarse = pnp.round(x * 16) / 16
    return pnp.exp(-coarse * coarse) * pnp.exp(-(x - coarse) * (x + coarse))
