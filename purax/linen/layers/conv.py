# SPDX-License-Identifier: Apache-2.0
"""Convolutions over channels-last arrays: Conv, ConvLocal, ConvTranspose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from purax import numpy as pnp
from purax.linen import initializers
from purax.linen._support import ShapeDtypeStruct, eval_shape
from purax.linen.declare import compact, nowrap
from purax.linen.dtypes import promote_dtype
from purax.linen.layers.linear import default_kernel_init
from purax.linen.module import Module
from purax.primitives.convolution import ConvDimensionNumbers, conv_general_dilated
from purax.primitives.convolution_forms import conv_general_dilated_local, conv_transpose

__all__ = ["Conv", "ConvLocal", "ConvTranspose"]

_PAD_MODES = {"CIRCULAR": "wrap", "REFLECT": "reflect"}


def _each(value: Any, rank: int) -> tuple[int, ...]:
    """Return one number for each spatial axis."""
    if value is None:
        value = 1
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _padding(padding: Any, rank: int) -> Any:
    """Return the name of a padding, or a pair for each spatial axis."""
    if isinstance(padding, str):
        return padding
    if isinstance(padding, int):
        return [(padding, padding)] * rank
    pairs = [(pad, pad) if isinstance(pad, int) else tuple(pad) for pad in padding]
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"padding must be a name, an int, or an int or pair for each of {rank} axes, got {padding!r}.")
    return pairs


def _layout(ndim: int) -> ConvDimensionNumbers:
    """Return the places of batch, channels and space: channels last, kernels (*space, inputs, outputs)."""
    data = (0, ndim - 1, *range(1, ndim - 1))
    return ConvDimensionNumbers(data, (ndim - 1, ndim - 2, *range(ndim - 2)), data)


def _flat_batch(inputs: Any, rank: int) -> tuple[Any, tuple[int, ...] | None]:
    """Give `inputs` exactly one batch axis; return the former batch shape if it had not."""
    batch = inputs.ndim - rank - 1
    if batch == 1:
        return inputs, None
    shape = inputs.shape[:batch]
    return pnp.reshape(inputs, (prod(shape), *inputs.shape[batch:])), shape


class _Conv(Module):
    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] | None = 1
    padding: Any = "SAME"
    input_dilation: int | Sequence[int] | None = 1
    kernel_dilation: int | Sequence[int] | None = 1
    feature_group_count: int = 1
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = pnp.float32
    precision: Any = None
    kernel_init: Callable[..., Any] = default_kernel_init
    bias_init: Callable[..., Any] = initializers.zeros
    promote_dtype: Callable[..., Any] = promote_dtype
    conv_general_dilated: Callable[..., Any] | None = None
    conv_general_dilated_cls: Any = None

    @property
    def shared_weights(self) -> bool:
        """Whether every position has the same kernel."""
        raise TypeError("Use Conv or ConvLocal.")

    @nowrap
    def _padded(self, inputs: Any, kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[Any, Any]:
        """Carry out the paddings that the convolution itself does not know; return the padding that is left."""
        padding = _padding(self.padding, len(kernel_size))
        if padding in ("CIRCULAR", "REFLECT"):
            extents = [(size - 1) * step + 1 for size, step in zip(kernel_size, dilation, strict=True)]
            pads = [(0, 0), *(((extent - 1) // 2, extent // 2) for extent in extents), (0, 0)]
            return pnp.pad(inputs, pads, mode=_PAD_MODES[padding]), "VALID"
        if padding == "CAUSAL":
            if len(kernel_size) != 1:
                raise ValueError(f"CAUSAL padding needs one spatial axis, got kernel_size {kernel_size}.")
            return pnp.pad(inputs, [(0, 0), (dilation[0] * (kernel_size[0] - 1), 0), (0, 0)]), "VALID"
        return inputs, padding

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Convolve `inputs`, shape (*batch, *space, channels); the result has `features` channels."""
        kernel_size = _each(self.kernel_size, 1)
        rank = len(kernel_size)
        strides, dilation = _each(self.strides, rank), _each(self.kernel_dilation, rank)
        inputs, batch_shape = _flat_batch(inputs, rank)
        inputs, padding = self._padded(inputs, kernel_size, dilation)
        channels = inputs.shape[-1]
        layout = _layout(inputs.ndim)
        options: dict[str, Any] = {
            "lhs_dilation": _each(self.input_dilation, rank),
            "rhs_dilation": dilation,
            "dimension_numbers": layout,
        }
        convolve = self.conv_general_dilated or conv_general_dilated
        if self.conv_general_dilated_cls is not None:
            convolve = self.conv_general_dilated_cls()
        if self.shared_weights:
            if channels % self.feature_group_count:
                raise ValueError(f"{channels} channels do not divide into {self.feature_group_count} groups.")
            kernel_shape = (*kernel_size, channels // self.feature_group_count, self.features)
            bias_shape: tuple[int, ...] = (self.features,)
        else:
            if self.feature_group_count != 1:
                raise ValueError(f"ConvLocal has no groups, got feature_group_count={self.feature_group_count}.")
            full = ShapeDtypeStruct((*kernel_size, channels, self.features), inputs.dtype)
            shaped = ShapeDtypeStruct(inputs.shape, inputs.dtype)
            bias_shape = eval_shape(lambda x, k: convolve(x, k, strides, padding, **options), shaped, full).shape[1:]
            kernel_shape = (*bias_shape[:-1], prod(kernel_size) * channels, self.features)
        if self.mask is not None and tuple(self.mask.shape) != kernel_shape:
            raise ValueError(f"The mask has shape {tuple(self.mask.shape)}, the kernel {kernel_shape}.")
        kernel = self.param("kernel", self.kernel_init, kernel_shape, self.param_dtype)
        if self.mask is not None:
            kernel = kernel * self.mask
        bias = self.param("bias", self.bias_init, bias_shape, self.param_dtype) if self.use_bias else None
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        if self.shared_weights:
            groups = self.feature_group_count
            y = convolve(
                inputs, kernel, strides, padding, feature_group_count=groups, precision=self.precision, **options
            )
        else:
            y = conv_general_dilated_local(
                inputs, kernel, strides, padding, filter_shape=kernel_size, precision=self.precision, **options
            )
        if bias is not None:
            y = y + bias
        return y if batch_shape is None else pnp.reshape(y, batch_shape + y.shape[1:])


class Conv(_Conv):
    """A convolution (cross-correlation): each output is a weighted sum of the input around its position, plus a bias.

    Parameters
    ----------
    features : int
        Output channels.
    kernel_size : int or sequence of int
        Extent along each spatial axis; its length is their number.
    strides : int or sequence of int
        Steps between outputs.
    padding : str, int or sequence
        "SAME", "VALID", "CIRCULAR" (the input wraps around), "REFLECT", "CAUSAL" (one axis; outputs see no later input),
        or what to add: an int, or an int or pair for each axis.
    input_dilation, kernel_dilation : int or sequence of int
        Spacing of inputs, and of kernel entries.
    feature_group_count : int
        Groups of channels that do not mix.
    use_bias, dtype, param_dtype, precision, kernel_init, bias_init, promote_dtype
        As for `Dense`. The kernel has shape (*kernel_size, channels // groups, features).
    mask : Array, optional
        Multiplies the kernel.
    conv_general_dilated, conv_general_dilated_cls : callable, optional
        Another convolution, or a module class that makes one.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> conv = linen.Conv(features=4, kernel_size=(3, 3), strides=2)
    >>> conv.init_with_output(random.key(0), pnp.ones((1, 8, 8, 3)))[0].shape
    (1, 4, 4, 4)
    """

    @property
    def shared_weights(self) -> bool:
        """True."""
        return True


class ConvLocal(_Conv):
    """A convolution with a kernel of its own at each position.

    Parameters are those of `Conv`, without groups. The kernel has shape
    (*output positions, kernel entries * channels, features), the bias (*output positions, features).
    """

    @property
    def shared_weights(self) -> bool:
        """False."""
        return False


class ConvTranspose(Module):
    """A transposed convolution, which enlarges its input by `strides`.

    Parameters
    ----------
    features, kernel_size, padding, kernel_dilation, use_bias, mask, dtype, param_dtype, precision, promote_dtype
        As for `Conv`; padding is "SAME", "VALID", "CIRCULAR" or pairs.
    strides : sequence of int, optional
        Factor along each spatial axis.
    kernel_init, bias_init : callable
        Initializers; the kernel has shape (*kernel_size, channels, features).
    transpose_kernel : bool
        Whether to flip the kernel and exchange its last two axes (its shape is then (*kernel_size, features, channels)):
        the exact transpose of `Conv`, and the layout of other libraries.
    preferred_element_type : dtype, optional
        Dtype to accumulate in.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> up = linen.ConvTranspose(features=4, kernel_size=(3, 3), strides=(2, 2))
    >>> up.init_with_output(random.key(0), pnp.ones((1, 5, 5, 3)))[0].shape
    (1, 10, 10, 4)
    """

    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] | None = None
    padding: Any = "SAME"
    kernel_dilation: int | Sequence[int] | None = None
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = pnp.float32
    precision: Any = None
    kernel_init: Callable[..., Any] = default_kernel_init
    bias_init: Callable[..., Any] = initializers.zeros
    transpose_kernel: bool = False
    promote_dtype: Callable[..., Any] = promote_dtype
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Enlarge `inputs`, shape (*batch, *space, channels); the result has `features` channels."""
        kernel_size = _each(self.kernel_size, 1)
        rank = len(kernel_size)
        strides = _each(self.strides, rank)
        inputs, batch_shape = _flat_batch(inputs, rank)
        channels = inputs.shape[-1]
        ends = (self.features, channels) if self.transpose_kernel else (channels, self.features)
        kernel_shape = (*kernel_size, *ends)
        if self.mask is not None and tuple(self.mask.shape) != kernel_shape:
            raise ValueError(f"The mask has shape {tuple(self.mask.shape)}, the kernel {kernel_shape}.")
        kernel = self.param("kernel", self.kernel_init, kernel_shape, self.param_dtype)
        if self.mask is not None:
            kernel = kernel * self.mask
        bias = self.param("bias", self.bias_init, (self.features,), self.param_dtype) if self.use_bias else None
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        padding = _padding(self.padding, rank)
        y = conv_transpose(
            inputs,
            kernel,
            strides,
            "VALID" if padding == "CIRCULAR" else padding,
            rhs_dilation=_each(self.kernel_dilation, rank),
            transpose_kernel=self.transpose_kernel,
            precision=self.precision,
            preferred_element_type=self.preferred_element_type,
        )
        if padding == "CIRCULAR":
            y = self._wrapped(y, [size * stride for size, stride in zip(inputs.shape[1:-1], strides, strict=True)])
        if bias is not None:
            y = y + bias
        return y if batch_shape is None else pnp.reshape(y, batch_shape + y.shape[1:])

    @nowrap
    def _wrapped(self, y: Any, periods: list[int]) -> Any:
        """Fold the output onto one period along each axis: what lies beyond an end is added at the other one.

        The output is padded to whole periods with its centre at the centre of one, then the periods are summed.
        """
        pads = [(0, 0)]
        for size, period in zip(y.shape[1:-1], periods, strict=True):
            missing = (period - size) % (2 * period)
            small, large = missing // 2, (missing + 1) // 2
            pads.append((small, large) if self.transpose_kernel else (large, small))
        y = pnp.pad(y, [*pads, (0, 0)])
        for axis, period in enumerate(periods, 1):
            y = pnp.sum(pnp.reshape(y, (*y.shape[:axis], -1, period, *y.shape[axis + 1 :])), axis=axis)
        return y
