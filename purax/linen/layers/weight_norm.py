# SPDX-License-Identifier: Apache-2.0
"""Normalization of parameters: SpectralNorm and WeightNorm wrap a layer, whose weights they change before each call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

from purax import numpy as pnp
from purax import random, tree
from purax.linen import initializers
from purax.linen.declare import compact, nowrap
from purax.linen.dtypes import canonicalize_dtype
from purax.linen.layers.normalization import normal_axes
from purax.linen.lift import map_variables
from purax.linen.module import Module
from purax.primitives.power import rsqrt
from purax.primitives.stop_gradient import stop_gradient

__all__ = ["SpectralNorm", "WeightNorm"]


def _unit(x: Any, axis: Any = None, epsilon: float = 1e-12) -> Any:
    """Return x over its Euclidean norm along axes."""
    return x * rsqrt(pnp.sum(x * x, axis=axis, keepdims=True) + epsilon)


def _name(path: Sequence[Any]) -> str:
    """Name of a variable below its collection, such as "Dense_0/kernel"."""
    return tree.keystr(tuple(path[1:]), simple=True, separator="/")


class SpectralNorm(Module):
    """Divide each matrix of a layer by its largest singular value, estimated by power iteration.

    Variables with more axes count as matrices with their last axis as columns. The vectors and values of the iteration are
    kept in a collection of variables, which `update_stats=True` moves on.

    Parameters
    ----------
    layer_instance : Module
        Layer to wrap.
    n_steps : int
        Steps of the iteration at each call.
    epsilon : float
        Keeps norms from zero.
    dtype, param_dtype : dtype
        Of the normalized weights, and of the iteration.
    error_on_non_matrix : bool
        Whether variables with more than two axes are an error.
    collection_name : str
        Collection of the iteration's variables.

    References
    ----------
    Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.
    """

    layer_instance: Module
    n_steps: int = 1
    epsilon: float = 1e-12
    dtype: Any = None
    param_dtype: Any = pnp.float32
    error_on_non_matrix: bool = False
    collection_name: str = "batch_stats"

    @compact
    def __call__(self, *args: Any, update_stats: bool, **kwargs: Any) -> Any:
        """Call the layer with normalized weights; `update_stats` stores the state of the iteration."""
        normalize = functools.partial(self._spectral, update_stats=update_stats)
        run = map_variables(
            lambda layer: layer(*args, **kwargs),
            trans_in_fn=lambda variables: tree.map_with_path(normalize, variables),
            init=self.is_initializing(),
            mutable=True,
        )
        return run(self.layer_instance)

    @nowrap
    def _spectral(self, path: Any, given: Any, update_stats: bool) -> Any:
        value = pnp.asarray(given)
        if value.ndim <= 1 or self.n_steps < 1:
            return value
        if value.ndim > 2 and self.error_on_non_matrix:
            raise ValueError(f"SpectralNorm: {_name(path)} has {value.ndim} axes, and error_on_non_matrix is set.")
        matrix = pnp.reshape(value, (-1, value.shape[-1]))
        name = f"{self.layer_instance.name}/{_name(path)}"
        known = self.has_variable(self.collection_name, f"{name}/u")
        key = None if known else self.make_rng("params")
        u_variable = self.variable(
            self.collection_name, f"{name}/u", random.normal, key, (1, matrix.shape[-1]), self.param_dtype
        )
        sigma_variable = self.variable(self.collection_name, f"{name}/sigma", pnp.ones, (), self.param_dtype)
        u = u_variable.value
        for _ in range(self.n_steps):
            v = _unit(pnp.matmul(u, matrix.T), epsilon=self.epsilon)
            u = _unit(pnp.matmul(v, matrix), epsilon=self.epsilon)
        u, v = stop_gradient(u), stop_gradient(v)
        sigma = pnp.matmul(pnp.matmul(v, matrix), u.T)[0, 0]
        if update_stats:
            u_variable.value, sigma_variable.value = u, sigma
        normalized = pnp.reshape(matrix / pnp.where(sigma != 0, sigma, 1), value.shape)
        return pnp.asarray(normalized, canonicalize_dtype(given, u, v, sigma, dtype=self.dtype))


class WeightNorm(Module):
    """Give the weights of a layer unit norm over all but their feature axes, times a learned scale.

    Parameters
    ----------
    layer_instance : Module
        Layer to wrap.
    epsilon : float
        Keeps norms from zero.
    dtype, param_dtype : dtype
        Of the normalized weights, and of the scale.
    use_scale : bool
        Whether to learn a scale.
    scale_init : callable
        Its initializer.
    feature_axes : int, sequence of int or None
        Axes with a norm for each index; None takes one norm of the whole.
    variable_filter : iterable of str or None
        Only variables whose path contains one of these are normalized; None takes all.

    References
    ----------
    Salimans and Kingma, "Weight Normalization", 2016.
    """

    layer_instance: Module
    epsilon: float = 1e-12
    dtype: Any = None
    param_dtype: Any = pnp.float32
    use_scale: bool = True
    scale_init: Callable[..., Any] = initializers.ones
    feature_axes: int | Sequence[int] | None = -1
    variable_filter: Iterable[str] | None = field(default_factory=lambda: frozenset(("kernel",)))

    @compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer with normalized weights."""
        run = map_variables(
            lambda layer: layer(*args, **kwargs),
            trans_in_fn=lambda variables: tree.map_with_path(self._normalized, variables),
            init=self.is_initializing(),
        )
        return run(self.layer_instance)

    @nowrap
    def _normalized(self, path: Any, given: Any) -> Any:
        value = pnp.asarray(given)
        name = f"{self.layer_instance.name}/{_name(path)}"
        if self.variable_filter and not any(part in name for part in self.variable_filter):
            return value
        features = () if self.feature_axes is None else normal_axes(value.ndim, self.feature_axes)
        rest = tuple(axis for axis in range(value.ndim) if axis not in features)
        normalized = _unit(value, rest, self.epsilon)
        operands = [given]
        if self.use_scale:
            sizes = tuple(value.shape[axis] for axis in features)
            shape = tuple(size if axis in features else 1 for axis, size in enumerate(value.shape))
            scale = pnp.reshape(self.param(f"{name}/scale", self.scale_init, sizes, self.param_dtype), shape)
            normalized = normalized * scale
            operands.append(scale)
        return pnp.asarray(normalized, canonicalize_dtype(*operands, dtype=self.dtype))
