# SPDX-License-Identifier: Apache-2.0
"""Losses for numbers and vectors. Each gives one value for each element or vector; take the mean yourself."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import nn
from purax import numpy as pnp

__all__ = [
    "cosine_distance",
    "cosine_similarity",
    "huber_loss",
    "l2_loss",
    "log_cosh",
    "ntxent",
    "squared_error",
    "triplet_margin_loss",
]


def _errors(predictions: Any, targets: Any) -> Any:
    predictions = pnp.asarray(predictions)
    if not pnp.issubdtype(predictions.dtype, np.floating):
        raise TypeError(f"predictions must be of floating dtype, got {predictions.dtype}")
    if targets is None:
        return predictions
    if pnp.shape(predictions) != pnp.shape(targets):
        # Broadcasting [n] against [n, 1] here would silently compare each prediction with every target.
        raise ValueError(
            f"predictions of shape {pnp.shape(predictions)} and targets of shape {pnp.shape(targets)} must be equal "
            "in shape; reshape one of them"
        )
    return predictions - targets


def squared_error(predictions: Any, targets: Any = None) -> Any:
    """Squared error.

    Parameters
    ----------
    predictions : floating[...]
        Predicted values.
    targets : floating[...], optional
        True values; zero if left out.

    Returns
    -------
    floating[...]
        (predictions - targets)^2.
    """
    return _errors(predictions, targets) ** 2


def l2_loss(predictions: Any, targets: Any = None) -> Any:
    """Half the squared error, whose derivative is the error.

    Parameters
    ----------
    predictions : floating[...]
        Predicted values.
    targets : floating[...], optional
        True values; zero if left out.

    Returns
    -------
    floating[...]
        (predictions - targets)^2 / 2.
    """
    return 0.5 * squared_error(predictions, targets)


def huber_loss(predictions: Any, targets: Any = None, *, delta: Any = 1.0) -> Any:
    """Half the squared error near zero, the absolute error further out.

    Parameters
    ----------
    predictions : floating[...]
        Predicted values.
    targets : floating[...], optional
        True values; zero if left out.
    delta : float
        d in the equation, where the line begins.

    Returns
    -------
    floating[...]
        e^2 / 2 for |e| <= d, d (|e| - d / 2) beyond. Source: Huber 1964.
    """
    size = pnp.abs(_errors(predictions, targets))
    near = pnp.minimum(size, delta)
    return 0.5 * near**2 + delta * (size - near)


def log_cosh(predictions: Any, targets: Any = None) -> Any:
    """Logarithm of the hyperbolic cosine of the error: a smooth Huber loss.

    Parameters
    ----------
    predictions : floating[...]
        Predicted values.
    targets : floating[...], optional
        True values; zero if left out.

    Returns
    -------
    floating[...]
        log cosh(e), computed as log(exp(e) + exp(-e)) - log 2 without overflow. Source: Chen et al. 2019.
    """
    errors = _errors(predictions, targets)
    return pnp.logaddexp(errors, -errors) - np.asarray(np.log(2.0), errors.dtype)


def cosine_similarity(
    predictions: Any, targets: Any, *, epsilon: Any = 0.0, axis: int | tuple[int, ...] | None = -1, where: Any = None
) -> Any:
    """Cosine of the angle between two vectors.

    Parameters
    ----------
    predictions, targets : floating[..., n]
        The vectors.
    epsilon : float
        The least norm counted; with 0 the zero vector gives similarity 0, and no NaN in gradients.
    axis : int, tuple of int or None
        The axis of the components.
    where : bool[..., n], optional
        Components to count.

    Returns
    -------
    floating[...]
        a . b / (||a|| ||b||).
    """
    _errors(predictions, None)

    def unit(x: Any) -> Any:
        square = pnp.sum(pnp.square(x), axis=axis, keepdims=True, where=where)
        tiny = square <= pnp.maximum(pnp.asarray(epsilon, square.dtype) ** 2, 0)
        norm = pnp.sqrt(pnp.where(tiny, 1, square))
        least = pnp.where(pnp.asarray(epsilon) > 0, pnp.asarray(epsilon, square.dtype), 1)
        return x / pnp.where(tiny, least, norm)

    return pnp.sum(unit(pnp.asarray(predictions)) * unit(pnp.asarray(targets)), axis=axis, where=where)


def cosine_distance(
    predictions: Any, targets: Any, *, epsilon: Any = 0.0, axis: int | tuple[int, ...] | None = -1, where: Any = None
) -> Any:
    """One minus the cosine of the angle between two vectors.

    Parameters
    ----------
    predictions, targets, epsilon, axis, where
        As in `cosine_similarity`.

    Returns
    -------
    floating[...]
        1 - a . b / (||a|| ||b||).
    """
    return 1.0 - cosine_similarity(predictions, targets, epsilon=epsilon, axis=axis, where=where)


def ntxent(embeddings: Any, labels: Any, temperature: Any = 0.07) -> Any:
    """Contrastive loss of normalised embeddings: those of one label attract each other.

    Parameters
    ----------
    embeddings : floating[n, d]
        One vector for each example.
    labels : integer[n]
        The class of each example.
    temperature : float
        Divides the similarities.

    Returns
    -------
    floating[]
        Mean over positive pairs of -log(exp(s_ij) / (exp(s_ij) + sum of exp over negatives of i)).
        Source: Chen et al. 2020 (SimCLR).

    Raises
    ------
    ValueError
        If there is not one label for each embedding.
    """
    if pnp.shape(embeddings)[0] != pnp.shape(labels)[0]:
        raise ValueError(
            f"ntxent: {pnp.shape(embeddings)[0]} embeddings and {pnp.shape(labels)[0]} labels; each needs one"
        )
    labels = pnp.ravel(pnp.asarray(labels))
    same = labels[:, None] == labels[None, :]
    positive = pnp.logical_and(same, pnp.logical_not(pnp.eye(labels.shape[0], dtype=bool)))
    similarity = cosine_similarity(embeddings[None, :, :], embeddings[:, None, :], epsilon=1e-6) / temperature
    negatives = nn.logsumexp(pnp.where(same, -pnp.inf, similarity), axis=1, keepdims=True)
    losses = pnp.logaddexp(similarity, negatives) - similarity
    return pnp.sum(pnp.where(positive, losses, 0)) / pnp.maximum(pnp.sum(positive), 1)


def triplet_margin_loss(
    anchors: Any,
    positives: Any,
    negatives: Any,
    axis: int = -1,
    norm_degree: Any = 2,
    margin: Any = 1.0,
    eps: Any = 1e-6,
) -> Any:
    """Ask that an anchor be nearer to its positive than to its negative by a margin.

    Parameters
    ----------
    anchors, positives, negatives : floating[..., d]
        Three vectors for each example.
    axis : int
        The axis of the components.
    norm_degree : float
        p of the distance.
    margin : float
        How much nearer.
    eps : float
        Added inside the root.

    Returns
    -------
    floating[...]
        max(0, d(a, p) - d(a, n) + margin), d(x, y) = (sum |x - y|^p + eps)^(1/p). Source: Schroff et al. 2015.
    """

    def distance(other: Any) -> Any:
        powers = pnp.power(pnp.abs(anchors - other), norm_degree)
        return (pnp.sum(powers, axis=axis) + eps) ** (1.0 / norm_degree)

    return pnp.maximum(distance(positives) - distance(negatives) + margin, 0.0)
