# SPDX-License-Identifier: Apache-2.0
"""Products in eight-bit floats, for `dot_general_cls` of the linear layers.

Operands are divided by a scale and rounded to eight bits; the product is multiplied by the scales again. A scale follows the
largest magnitude of recent calls (delayed scaling), kept in the collection "_overwrite_with_gradient": the "gradient" of a
scale or history is its next value, which a training loop stores as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from purax import numpy as pnp
from purax.control.custom import custom_vjp
from purax.linen import initializers
from purax.linen.declare import nowrap
from purax.linen.module import Module
from purax.linen.scope import Variable
from purax.primitives.contraction import dot_general
from purax.transforms.vjp import vjp

__all__ = ["Fp8DirectDotGeneralOp", "Fp8DotGeneral", "Fp8DotGeneralOp", "Fp8Einsum", "NANOOFp8DotGeneralOp"]

OVERWRITE_WITH_GRADIENT = "_overwrite_with_gradient"


def _quantized(x: Any, dtype: Any, scale: Any, compute_dtype: Any) -> Any:
    """Return x / scale, clipped to the range of `dtype` and rounded to it."""
    largest = pnp.asarray(pnp.finfo(dtype).max, compute_dtype)
    return pnp.clip(x / scale.astype(compute_dtype), -largest, largest).astype(dtype)


def _next(x: Any, dtype: Any, scale: Any, history: Any) -> tuple[Any, Any]:
    """Return the scale for this call, from the history, and the history with this call's largest magnitude."""
    amax = pnp.max(history, axis=0)
    usable = (amax > 0) & pnp.isfinite(amax)
    new_scale = pnp.where(usable, pnp.where(usable, amax, 1) / float(pnp.finfo(dtype).max), scale)
    newest = pnp.max(pnp.abs(x)).astype(history.dtype)
    return new_scale, pnp.roll(history, -1, axis=0).at[0].set(newest)


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _round_input(compute_dtype: Any, dtype: Any, x: Any, scale: Any, history: Any) -> Any:
    """Round x to eight bits and back; the derivative is that of the identity."""
    return _round_input_forward(compute_dtype, dtype, x, scale, history)[0]


def _round_input_forward(compute_dtype: Any, dtype: Any, x: Any, scale: Any, history: Any) -> Any:
    scale, history = _next(x, dtype, scale, history)
    rounded = _quantized(x, dtype, scale, compute_dtype).astype(x.dtype) * scale.astype(x.dtype)
    return rounded, (scale, history)


_round_input.defvjp(_round_input_forward, lambda compute_dtype, dtype, kept, cotangent: (cotangent, *kept))


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _round_cotangent(compute_dtype: Any, dtype: Any, y: Any, scale: Any, history: Any) -> Any:
    """Return y; its cotangent is rounded to eight bits and back."""
    return y


def _round_cotangent_backward(compute_dtype: Any, dtype: Any, kept: Any, cotangent: Any) -> Any:
    rounded, new = _round_input_forward(compute_dtype, dtype, cotangent, *kept)
    return (rounded, *new)


_round_cotangent.defvjp(
    lambda compute_dtype, dtype, y, scale, history: (y, (scale, history)), _round_cotangent_backward
)


@partial(custom_vjp, nondiff_argnums=(0, 1, 2))
def _scaled_dot(dimensions: Any, types: Any, result: Any, lhs: Any, rhs: Any, scales: Any, histories: Any) -> Any:
    """Multiply in eight bits; `types` are the dtypes of operands and cotangent and the one to compute in."""
    return _scaled_dot_forward(dimensions, types, result, lhs, rhs, scales, histories)[0]


def _scaled_dot_forward(
    dimensions: Any, types: Any, result: Any, lhs: Any, rhs: Any, scales: Any, histories: Any
) -> Any:
    narrow, _, compute_dtype = types
    lhs_scale, lhs_history = _next(lhs, narrow, scales[0], histories[0])
    rhs_scale, rhs_history = _next(rhs, narrow, scales[1], histories[1])
    small_lhs = _quantized(lhs, narrow, lhs_scale, compute_dtype)
    small_rhs = _quantized(rhs, narrow, rhs_scale, compute_dtype)
    # eight-bit values are exact in the result's dtype; compilers turn the pattern into an eight-bit product
    y = dot_general(small_lhs.astype(result), small_rhs.astype(result), dimensions, preferred_element_type=result)
    kept = (small_lhs, small_rhs, (lhs_scale, rhs_scale, scales[2]), (lhs_history, rhs_history, histories[2]))
    return y * (lhs_scale * rhs_scale).astype(result), kept


def _scaled_dot_backward(dimensions: Any, types: Any, result: Any, kept: Any, cotangent: Any) -> Any:
    _, wide, compute_dtype = types
    small_lhs, small_rhs, (lhs_scale, rhs_scale, scale), (lhs_history, rhs_history, history) = kept
    scale, history = _next(cotangent, wide, scale, history)
    small = _quantized(cotangent, wide, scale, compute_dtype).astype(result)
    product = partial(dot_general, dimension_numbers=dimensions, preferred_element_type=result)
    _, pull = vjp(lambda lhs, rhs: product(lhs, rhs), small_lhs.astype(result), small_rhs.astype(result))
    of_lhs, of_rhs = pull(small)
    of_lhs = of_lhs * (rhs_scale * scale).astype(result)
    of_rhs = of_rhs * (lhs_scale * scale).astype(result)
    return of_lhs, of_rhs, (lhs_scale, rhs_scale, scale), (lhs_history, rhs_history, history)


_scaled_dot.defvjp(_scaled_dot_forward, _scaled_dot_backward)


class _Fp8(Module):
    amax_history_length: int = 1024
    e4m3_dtype: Any = pnp.float8_e4m3fn
    e5m2_dtype: Any = pnp.float8_e5m2

    def setup(self) -> None:
        """Declare scales and histories of input, kernel and cotangent."""

        def variable(name: str, init: Callable[..., Any], size: int) -> Variable[Any]:
            return self.variable(OVERWRITE_WITH_GRADIENT, name, init, None, (size,), pnp.float32)

        length = self.amax_history_length
        self.input_amax_history = variable("input_amax_history", initializers.zeros, length)
        self.kernel_amax_history = variable("kernel_amax_history", initializers.zeros, length)
        self.output_grad_amax_history = variable("output_grad_amax_history", initializers.zeros, length)
        self.input_scale = variable("input_scale", initializers.ones, 1)
        self.kernel_scale = variable("kernel_scale", initializers.ones, 1)
        self.output_grad_scale = variable("output_grad_scale", initializers.ones, 1)

    @nowrap
    def _dot(self, lhs: Any, rhs: Any, dimensions: Any, compute_dtype: Any, result: Any) -> Any:
        scales = (self.input_scale, self.kernel_scale, self.output_grad_scale)
        histories = (self.input_amax_history, self.kernel_amax_history, self.output_grad_amax_history)
        types = (self.e4m3_dtype, self.e5m2_dtype, compute_dtype)
        dimensions = tuple(tuple(tuple(axes) for axes in pair) for pair in dimensions)
        return _scaled_dot(
            dimensions, types, result, lhs, rhs, tuple(s.value for s in scales), tuple(h.value for h in histories)
        )


class Fp8DotGeneralOp(_Fp8):
    """A product of operands that are rounded to eight bits and back, for compilers that see through the rounding.

    Parameters
    ----------
    amax_history_length : int
        How many calls the scale looks back.
    e4m3_dtype, e5m2_dtype : dtype
        Eight-bit dtypes of operands and of the cotangent.
    """

    def __call__(self, lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, **options: Any) -> Any:
        """Return `dot_general(lhs, rhs, dimension_numbers)`; the precision is that of eight bits."""
        del precision, options
        dtype = rhs.dtype
        lhs = pnp.asarray(lhs, dtype)
        narrow = self.e4m3_dtype
        lhs = _round_input(dtype, narrow, lhs, self.input_scale.value, self.input_amax_history.value)
        rhs = _round_input(dtype, narrow, rhs, self.kernel_scale.value, self.kernel_amax_history.value)
        y = dot_general(lhs, rhs, dimension_numbers)
        scale, history = self.output_grad_scale.value, self.output_grad_amax_history.value
        return _round_cotangent(dtype, self.e5m2_dtype, y, scale, history)


class Fp8DirectDotGeneralOp(_Fp8):
    """A product of eight-bit operands, scaled afterwards. Parameters are those of `Fp8DotGeneralOp`.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> layer = linen.Dense(3, dot_general_cls=linen.Fp8DirectDotGeneralOp)
    >>> sorted(layer.init(random.key(0), pnp.ones((2, 4))))
    ['_overwrite_with_gradient', 'params']
    """

    def __call__(self, lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, **options: Any) -> Any:
        """Return `dot_general(lhs, rhs, dimension_numbers)`; the precision is that of eight bits."""
        del precision, options
        lhs = pnp.asarray(lhs, rhs.dtype)
        return self._dot(lhs, rhs, dimension_numbers, rhs.dtype, lhs.dtype)


Fp8DotGeneral = Fp8DirectDotGeneralOp


class NANOOFp8DotGeneralOp(Fp8DotGeneralOp):
    """`Fp8DotGeneralOp` in the eight-bit dtypes without negative zero."""

    e4m3_dtype: Any = pnp.float8_e4m3fnuz
    e5m2_dtype: Any = pnp.float8_e5m2fnuz


class Fp8Einsum(_Fp8):
    """An einsum of two operands in eight bits. Parameters are those of `Fp8DotGeneralOp`."""

    def __call__(self, eqn: str, lhs: Any, rhs: Any, precision: Any = None, preferred_element_type: Any = None) -> Any:
        """Return `einsum(eqn, lhs, rhs)`; the precision is that of eight bits."""
        del precision
        lhs = lhs.astype(rhs.dtype)

        def product(lhs: Any, rhs: Any, dimension_numbers: Any, *_: Any, **options: Any) -> Any:
            result = options.get("preferred_element_type") or rhs.dtype
            return self._dot(lhs, rhs, dimension_numbers, rhs.dtype, result)

        return pnp.einsum(eqn, lhs, rhs, preferred_element_type=preferred_element_type, _dot_general=product)
