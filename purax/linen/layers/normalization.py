# SPDX-License-Identifier: Apache-2.0
"""Normalization of activations: BatchNorm, LayerNorm, RMSNorm, GroupNorm, InstanceNorm.

Mean and variance are taken in at least float32, in two passes: first the mean, then the mean square of what is left. So data
whose mean is large against its spread keep their variance, at the price of reading them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from purax import numpy as pnp
from purax.linen import initializers
from purax.linen.declare import compact, nowrap
from purax.linen.dtypes import canonicalize_dtype
from purax.linen.module import Module, merge_param
from purax.primitives.collective import pmean
from purax.primitives.power import rsqrt

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


def normal_axes(ndim: int, axes: Any) -> tuple[int, ...]:
    """Return axes as a tuple of numbers from 0 on."""
    return tuple(axis % ndim for axis in (axes if isinstance(axes, Sequence) else (axes,)))


def _square(x: Any) -> Any:
    return pnp.square(x.real) + pnp.square(x.imag) if pnp.iscomplexobj(x) else pnp.square(x)


@dataclass(frozen=True)
class _Statistics:
    """How to take mean and variance; the settings that the normalizations share."""

    dtype: Any
    axis_name: Any
    axis_index_groups: Any
    use_fast_variance: bool
    force_float32: bool

    def mean(self, x: Any, axes: tuple[int, ...], mask: Any) -> Any:
        """Return the mean over axes, and over the devices or lanes of a named axis."""
        mean = pnp.mean(x, axes, where=mask)
        if self.axis_name is None:
            return mean
        return pmean(mean, self.axis_name, axis_index_groups=self.axis_index_groups)

    def mean_and_variance(self, x: Any, axes: tuple[int, ...], mask: Any, centered: bool = True) -> tuple[Any, Any]:
        """Return mean and variance over axes; without `centered`, zero and the mean square."""
        dtype = pnp.result_type(x) if self.dtype is None else self.dtype
        if self.force_float32:
            dtype = pnp.promote_types(dtype, pnp.float32)
        x = pnp.asarray(x, dtype)
        if mask is not None:
            mask = pnp.asarray(mask, bool)
        if not centered:
            square = self.mean(_square(x), axes, mask)
            return pnp.zeros_like(square), square
        mean = self.mean(x, axes, mask)
        if self.use_fast_variance:
            return mean, pnp.maximum(self.mean(_square(x), axes, mask) - _square(mean), 0.0)
        return mean, self.mean(_square(x - pnp.expand_dims(mean, axes)), axes, mask)


def _statistics(module: Any, axis_name: Any) -> _Statistics:
    return _Statistics(
        module.dtype,
        axis_name,
        module.axis_index_groups,
        module.use_fast_variance,
        module.force_float32_reductions,
    )


def _normalized(
    module: Any, x: Any, mean: Any, variance: Any, reduction_axes: tuple[int, ...], feature_axes: tuple[int, ...]
) -> Any:
    """Return `(x - mean) / sqrt(variance + epsilon) * scale + bias`, scale and bias over the feature axes."""
    sizes = tuple(x.shape[axis] for axis in feature_axes)
    shape = tuple(x.shape[axis] if axis in feature_axes else 1 for axis in range(x.ndim))
    operands = [x]

    def parameter(name: str, init: Callable[..., Any]) -> Any:
        value = pnp.reshape(module.param(name, init, sizes, module.param_dtype), shape)
        operands.append(value)
        return value if module.force_float32_reductions else pnp.asarray(value, module.param_dtype)

    factor = rsqrt(pnp.expand_dims(variance, reduction_axes) + module.epsilon)
    if module.use_scale:
        factor = factor * parameter("scale", module.scale_init)
    y = (x - pnp.expand_dims(mean, reduction_axes)) * factor
    if getattr(module, "use_bias", False):
        y = y + parameter("bias", module.bias_init)
    return pnp.asarray(y, canonicalize_dtype(*operands, dtype=module.dtype))


class BatchNorm(Module):
    """Normalize each feature over the batch; in evaluation by running averages.

    The running averages are the variables "mean" and "var" of the collection "batch_stats", so a training call needs
    `mutable=["batch_stats"]`. `init` does not move them.

    Parameters
    ----------
    use_running_average : bool, optional
        True to normalize by the running averages; given here or at the call.
    axis : int or sequence of int
        Feature axes.
    momentum : float
        `average = momentum * average + (1 - momentum) * batch value`.
    epsilon : float
        Added to the variance.
    dtype : dtype, optional
        Of the result; by default that of input and parameters together.
    param_dtype : dtype
        Of scale and bias.
    use_bias, use_scale : bool
        Whether to learn them.
    bias_init, scale_init : callable
        Their initializers.
    axis_name : str, optional
        Named axis of `pmap`, `vmap` or `shard_map` to take the statistics over as well.
    axis_index_groups : sequence of sequence of int, optional
        Groups along that axis.
    use_fast_variance : bool
        Whether to compute `E[x^2] - E[x]^2`, which reads the data once and is wrong where the mean is large.
    force_float32_reductions : bool
        Whether statistics have at least float32.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> norm = linen.BatchNorm(use_running_average=False)
    >>> variables = norm.init(random.key(0), pnp.ones((4, 3)))
    >>> y, updates = norm.apply(variables, pnp.ones((4, 3)), mutable=["batch_stats"])
    """

    use_running_average: bool | None = None
    axis: int | Sequence[int] = -1
    momentum: float = 0.99
    epsilon: float = 1e-5
    dtype: Any = None
    param_dtype: Any = pnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable[..., Any] = initializers.zeros
    scale_init: Callable[..., Any] = initializers.ones
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = False
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, use_running_average: bool | None = None, *, mask: Any = None) -> Any:
        """Normalize `x`; entries where `mask` is False do not count in the statistics."""
        average = merge_param("use_running_average", self.use_running_average, use_running_average)
        feature_axes = normal_axes(x.ndim, self.axis)
        reduction_axes = tuple(axis for axis in range(x.ndim) if axis not in feature_axes)
        sizes = tuple(x.shape[axis] for axis in feature_axes)
        dtype = pnp.float32 if self.force_float32_reductions else self.param_dtype
        running_mean = self.variable("batch_stats", "mean", pnp.zeros, sizes, dtype)
        running_variance = self.variable("batch_stats", "var", pnp.ones, sizes, dtype)
        if average:
            mean, variance = running_mean.value, running_variance.value
            if not self.force_float32_reductions:
                mean, variance = pnp.asarray(mean, dtype), pnp.asarray(variance, dtype)
        else:
            initializing = self.is_initializing()
            statistics = _statistics(self, None if initializing else self.axis_name)
            mean, variance = statistics.mean_and_variance(x, reduction_axes, mask)
            if not initializing:
                new = 1 - self.momentum
                running_mean.value = self.momentum * running_mean.value + new * mean
                running_variance.value = self.momentum * running_variance.value + new * variance
        return _normalized(self, x, mean, variance, reduction_axes, feature_axes)


class LayerNorm(Module):
    """Normalize each example over its features.

    Parameters
    ----------
    epsilon, dtype, param_dtype, use_bias, use_scale, bias_init, scale_init, axis_name, axis_index_groups, \
use_fast_variance, force_float32_reductions
        As for `BatchNorm`.
    reduction_axes : int or sequence of int
        Axes to take the statistics over.
    feature_axes : int or sequence of int
        Axes of scale and bias.
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = pnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable[..., Any] = initializers.zeros
    scale_init: Callable[..., Any] = initializers.ones
    reduction_axes: int | Sequence[int] = -1
    feature_axes: int | Sequence[int] = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = False
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Normalize `x`."""
        axes = normal_axes(x.ndim, self.reduction_axes)
        mean, variance = _statistics(self, self.axis_name).mean_and_variance(x, axes, mask)
        return _normalized(self, x, mean, variance, axes, normal_axes(x.ndim, self.feature_axes))


class RMSNorm(Module):
    """Divide each example by the root mean square of its features; no mean is taken away, there is no bias.

    Parameters are those of `LayerNorm`. Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = pnp.float32
    use_scale: bool = True
    scale_init: Callable[..., Any] = initializers.ones
    reduction_axes: int | Sequence[int] = -1
    feature_axes: int | Sequence[int] = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = False
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Normalize `x`."""
        axes = normal_axes(x.ndim, self.reduction_axes)
        mean, square = _statistics(self, self.axis_name).mean_and_variance(x, axes, mask, centered=False)
        return _normalized(self, x, mean, square, axes, normal_axes(x.ndim, self.feature_axes))


class GroupNorm(Module):
    """Normalize each example over space and groups of channels.

    Parameters
    ----------
    num_groups : int, optional
        Number of groups; None where `group_size` is given.
    group_size : int, optional
        Channels of a group.
    epsilon, dtype, param_dtype, use_bias, use_scale, bias_init, scale_init, axis_name, axis_index_groups, \
use_fast_variance, force_float32_reductions
        As for `BatchNorm`.
    reduction_axes : sequence of int, optional
        Axes to take the statistics over, the last one included; by default all but the first.
    """

    num_groups: int | None = 32
    group_size: int | None = None
    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = pnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable[..., Any] = initializers.zeros
    scale_init: Callable[..., Any] = initializers.ones
    reduction_axes: Sequence[int] | None = None
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = False
    force_float32_reductions: bool = True

    @nowrap
    def _groups(self, channels: int) -> int:
        if (self.num_groups is None) == (self.group_size is None):
            raise ValueError("GroupNorm: give num_groups, or num_groups=None and group_size.")
        if self.group_size is not None:
            if channels % self.group_size:
                raise ValueError(f"GroupNorm: {channels} channels are no multiple of group_size {self.group_size}.")
            return channels // self.group_size
        if self.num_groups <= 0 or channels % self.num_groups:  # type: ignore[operator]
            raise ValueError(f"GroupNorm: {channels} channels do not divide into {self.num_groups} groups.")
        return self.num_groups  # type: ignore[return-value]

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Normalize `x`, channels last."""
        last = x.ndim - 1
        axes = normal_axes(x.ndim, range(1, x.ndim) if self.reduction_axes is None else self.reduction_axes)
        if not axes or axes[-1] != last:
            raise ValueError(f"GroupNorm: reduction_axes {axes} must end with the channel axis {last}.")
        groups = self._groups(x.shape[-1])
        size = x.shape[-1] // groups
        grouped = pnp.reshape(x, (*x.shape[:-1], groups, size))
        if mask is not None:
            mask = pnp.reshape(mask, (*mask.shape[:-1], groups, size))
        statistics = _statistics(self, self.axis_name)
        mean, variance = statistics.mean_and_variance(grouped, (*axes[:-1], last + 1), mask)
        mean, variance = pnp.repeat(mean, size, axis=-1), pnp.repeat(variance, size, axis=-1)
        return _normalized(self, x, mean, variance, axes[:-1], (last,))


class InstanceNorm(Module):
    """Normalize each channel of each example over space.

    Parameters
    ----------
    epsilon, dtype, param_dtype, use_bias, use_scale, bias_init, scale_init, axis_name, axis_index_groups, \
use_fast_variance, force_float32_reductions
        As for `BatchNorm`.
    feature_axes : int or sequence of int
        Channel axes; not the first axis.
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = pnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Callable[..., Any] = initializers.zeros
    scale_init: Callable[..., Any] = initializers.ones
    feature_axes: int | Sequence[int] = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = False
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Normalize `x`, shape (batch, *space, channels)."""
        feature_axes = normal_axes(x.ndim, self.feature_axes)
        if 0 in feature_axes:
            raise ValueError("InstanceNorm: the first axis is the batch; it can be no feature axis.")
        axes = tuple(axis for axis in range(1, x.ndim) if axis not in feature_axes)
        mean, variance = _statistics(self, self.axis_name).mean_and_variance(x, axes, mask)
        return _normalized(self, x, mean, variance, axes, feature_axes)
