# SPDX-License-Identifier: Apache-2.0
"""Density estimation by a sum of normal densities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax import random
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.scipy import linalg, special
from purax.tree import register_pytree_node_class

__all__ = ["gaussian_kde"]


@register_pytree_node_class
class gaussian_kde:
    """The density that a normal density around each point of a sample makes, all with the sample's scaled covariance.

    Parameters
    ----------
    dataset : float[n] or float[d, n]
    bw_method : "scott", "silverman", scalar or callable, optional
        The factor on the standard deviation; a callable gets this object.
    weights : float[n], optional

    Attributes
    ----------
    dataset : float[d, n]
    weights : float[n], with sum 1
    neff : float[]
        Effective number of points, 1 / sum(weights**2).
    covariance, inv_cov : float[d, d]
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        check_arraylike("gaussian_kde", dataset)
        (dataset,) = promote_dtypes_inexact(dataset)
        self.dataset = pnp.atleast_2d(dataset)
        if np.issubdtype(self.dataset.dtype, np.complexfloating):
            raise TypeError(f"gaussian_kde takes real points, got {self.dataset.dtype}")
        if not self.dataset.size > 1:
            raise ValueError("gaussian_kde: a single number has no spread to estimate a density from")
        if weights is None:
            weights = pnp.full(self.n, 1 / self.n, self.dataset.dtype)
        else:
            weights = pnp.atleast_1d(pnp.asarray(weights))
            if weights.ndim != 1:
                raise ValueError(f"gaussian_kde: weights is a vector, got shape {weights.shape}")
            if len(weights) != self.n:
                raise ValueError(
                    f"gaussian_kde: there must be one weight for each of {self.n} points, got {len(weights)}"
                )
            weights = weights.astype(self.dataset.dtype) / pnp.sum(weights)
        self.weights = weights
        self.neff = 1 / pnp.sum(weights * weights)
        factor = self._factor(bw_method)
        data = pnp.atleast_2d(pnp.cov(self.dataset, rowvar=True, bias=False, aweights=weights))
        self.covariance = (data * factor**2).astype(self.dataset.dtype)
        self.inv_cov = (linalg.inv(data) / factor**2).astype(self.dataset.dtype)

    def _factor(self, method: Any) -> Any:
        if method is None or method == "scott":
            return self.neff ** (-1 / (self.d + 4))
        if isinstance(method, str):
            if method != "silverman":
                raise ValueError(
                    f"gaussian_kde: bw_method is 'scott', 'silverman', a number or a function, got {method!r}"
                )
            return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        return method(self) if callable(method) else method

    @property
    def d(self) -> int:
        """Number of variables."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """Number of points."""
        return self.dataset.shape[1]

    def tree_flatten(self) -> Any:
        """Arrays, and None."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> gaussian_kde:
        """The object of these arrays."""
        made = cls.__new__(cls)
        made.neff, made.dataset, made.weights, made.covariance, made.inv_cov = children
        return made

    def logpdf(self, x: Any) -> Any:
        """Logarithm of the density at points float[d, m]: float[m]."""
        points = self._points(x)
        low = linalg.cholesky(self.covariance, lower=True)
        inner, outer = (linalg.solve_triangular(low, y, lower=True) for y in (self.dataset, points))
        distance = pnp.sum((outer[:, :, None] - inner[:, None, :]) ** 2, axis=0)
        norm = pnp.sum(pnp.log(pnp.diagonal(low))) + 0.5 * self.d * math.log(2 * math.pi)
        return special.logsumexp(-0.5 * distance, axis=1, b=self.weights[None]) - norm

    def evaluate(self, points: Any) -> Any:
        """Density at points float[d, m]: float[m]."""
        return pnp.exp(self.logpdf(points))

    def __call__(self, points: Any) -> Any:
        """As `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: Any) -> Any:
        """As `evaluate`."""
        return self.evaluate(x)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """Integral of the product with a normal density of mean float[d] and covariance float[d, d]."""
        mean, cov = pnp.atleast_1d(pnp.squeeze(pnp.asarray(mean))), pnp.atleast_2d(pnp.asarray(cov))
        if mean.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if cov.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return self._overlap(mean[:, None], self.covariance + cov)[0]

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """Integral from low to high, for one variable."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if pnp.ndim(low) or pnp.ndim(high):
            raise ValueError("integrate_box_1d: low and high are numbers")
        sigma = pnp.sqrt(self.covariance[0, 0])
        ends = [special.ndtr((limit - self.dataset[0]) / sigma) for limit in (low, high)]
        return pnp.sum(self.weights * (ends[1] - ends[0]))

    def integrate_kde(self, other: Any) -> Any:
        """Integral of the product with another estimate of as many variables."""
        if other.d != self.d:
            raise ValueError(f"densities of {self.d} and {other.d} variables have no common integral")
        return pnp.sum(other.weights * self._overlap(other.dataset, self.covariance + other.covariance))

    def resample(self, key: Any, shape: Any = ()) -> Any:
        """Points drawn from the density: float[d, *shape]."""
        choice, noise = random.split(key)
        picked = random.choice(choice, self.n, shape=shape, p=self.weights)
        low = linalg.cholesky(self.covariance, lower=True)
        normal = random.normal(noise, (self.d, *shape), self.dataset.dtype)
        return self.dataset[:, picked] + pnp.tensordot(low, normal, axes=1)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Not for several variables: the integral has no closed form."""
        raise NotImplementedError(
            "the integral over a box of several variables has no closed form; integrate_box_1d is for one"
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not possible: the object is immutable; make another with that `bw_method`."""
        raise NotImplementedError("a density does not change; make another with that bw_method")

    def _points(self, x: Any) -> Any:
        check_arraylike("gaussian_kde", x)
        points = pnp.atleast_2d(pnp.asarray(x)).astype(self.dataset.dtype)
        d, m = points.shape
        if d == 1 and m == self.d != 1:
            points = pnp.reshape(points, (self.d, 1))
        if points.shape[0] != self.d:
            raise ValueError(f"points have dimension {d}, dataset has dimension {self.d}")
        return points

    def _overlap(self, means: Any, covariance: Any) -> Any:
        """Integrals of the product with normal densities around `means`[d, m] so that the covariances add to this: float[m]."""
        low = linalg.cholesky(covariance, lower=True)
        inner, outer = (linalg.solve_triangular(low, y, lower=True) for y in (self.dataset, means))
        distance = pnp.sum((outer[:, :, None] - inner[:, None, :]) ** 2, axis=0)
        norm = pnp.prod(pnp.diagonal(low)) * (2 * math.pi) ** (self.d / 2)
        return pnp.sum(pnp.exp(-0.5 * distance) * self.weights[None], axis=1) / norm
