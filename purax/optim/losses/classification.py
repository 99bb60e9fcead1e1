# SPDX-License-Identifier: Apache-2.0
"""Losses for labels. Each gives one value for each example; take the mean yourself."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import nn
from purax import numpy as pnp
from purax.optim.projections import projection_simplex
from purax.transforms.vmap import vmap

__all__ = [
    "convex_kl_divergence",
    "generalized_kl_divergence",
    "hinge_loss",
    "kl_divergence",
    "kl_divergence_with_log_targets",
    "multiclass_hinge_loss",
    "multiclass_perceptron_loss",
    "multiclass_sparsemax_loss",
    "perceptron_loss",
    "poly_loss_cross_entropy",
    "safe_softmax_cross_entropy",
    "sigmoid_binary_cross_entropy",
    "sigmoid_focal_loss",
    "smooth_labels",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_integer_labels",
    "sparsemax_loss",
]


def _check_floating(name: str, x: Any) -> None:
    dtype = pnp.result_type(x)
    if not pnp.issubdtype(dtype, np.floating):
        raise TypeError(f"{name} must be of floating dtype, got {dtype}; cast it, or pass scores instead of labels")


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Any:
    """Cross entropy of independent yes/no labels, stable for large logits.

    Parameters
    ----------
    logits : floating[...]
        Scores z.
    labels : [...]
        Probabilities y of "yes", in [0, 1].

    Returns
    -------
    floating[...]
        -y log s(z) - (1 - y) log(1 - s(z)), s the logistic function.
    """
    _check_floating("logits", logits)
    labels = pnp.asarray(labels).astype(pnp.result_type(logits))
    return -labels * nn.log_sigmoid(logits) - (1.0 - labels) * nn.log_sigmoid(-logits)


def sigmoid_focal_loss(logits: Any, labels: Any, *, alpha: Any = None, gamma: Any = 2.0) -> Any:
    """Cross entropy of yes/no labels that hard examples dominate.

    Parameters
    ----------
    logits : floating[...]
        Scores z.
    labels : [...]
        Probabilities y of "yes", in [0, 1].
    alpha : float, optional
        Weight of "yes" against "no".
    gamma : float
        How far easy examples count less.

    Returns
    -------
    floating[...]
        a (1 - p)^gamma * cross entropy, with p the probability given to the label and a = alpha y + (1 - alpha)(1 - y).
        Source: Lin et al. 2017.
    """
    cross_entropy = sigmoid_binary_cross_entropy(logits, labels)
    labels = pnp.asarray(labels).astype(pnp.result_type(logits))
    p = nn.sigmoid(logits)
    given = p * labels + (1 - p) * (1 - labels)
    loss = cross_entropy * (1 - given) ** gamma
    return loss if alpha is None else (alpha * labels + (1 - alpha) * (1 - labels)) * loss


def softmax_cross_entropy(logits: Any, labels: Any, axis: int | tuple[int, ...] | None = -1, where: Any = None) -> Any:
    """Cross entropy between softmax(logits) and label distributions.

    Parameters
    ----------
    logits : floating[..., classes]
        Scores z.
    labels : [..., classes]
        Distributions y that sum to 1.
    axis : int, tuple of int or None
        The axis of the classes.
    where : bool[..., classes], optional
        Classes to count.

    Returns
    -------
    floating[...]
        -sum y log softmax(z); 0 * log 0 counts as 0.
    """
    _check_floating("logits", logits)
    log_probabilities = nn.log_softmax(logits, axis, where)
    terms = pnp.where(labels == 0, 0.0, labels * log_probabilities)
    return -pnp.sum(terms, axis=axis, where=where)


def safe_softmax_cross_entropy(logits: Any, labels: Any) -> Any:
    """Cross entropy between softmax(logits) and label distributions, finite where both have a zero.

    Parameters
    ----------
    logits : floating[..., classes]
        Scores; -inf excludes a class.
    labels : [..., classes]
        Distributions that sum to 1.

    Returns
    -------
    floating[...]
        As `softmax_cross_entropy`.
    """
    return softmax_cross_entropy(logits, labels)


def softmax_cross_entropy_with_integer_labels(
    logits: Any, labels: Any, axis: int | tuple[int, ...] = -1, where: Any = None
) -> Any:
    """Cross entropy between softmax(logits) and one right class for each example.

    Parameters
    ----------
    logits : floating[..., classes]
        Scores z.
    labels : integer[...]
        The right classes, in [0, classes).
    axis : int or tuple of int
        The axis of the classes; a tuple counts classes over several axes in row-major order.
    where : bool[..., classes], optional
        Classes to count.

    Returns
    -------
    floating[...]
        logsumexp(z) - z[label].

    Raises
    ------
    TypeError
        If logits are not floating or labels not integer.
    """
    _check_floating("logits", logits)
    if not pnp.issubdtype(pnp.result_type(labels), np.integer):
        raise TypeError(f"labels must be of integer dtype, got {pnp.result_type(labels)}")
    logits = pnp.asarray(logits)
    if isinstance(axis, tuple):
        axes = tuple(a % logits.ndim for a in axis)
        rest = [a for a in range(logits.ndim) if a not in axes]
        order = (*rest, *axes)
        shape = (*(logits.shape[a] for a in rest), -1)
        logits = pnp.transpose(logits, order).reshape(shape)
        where = None if where is None else pnp.transpose(pnp.broadcast_to(where, logits.shape), order).reshape(shape)
        axis = -1
    classes = int(axis) % logits.ndim
    # log_softmax subtracts the maximum first: no cancellation between a large logsumexp and a large logit.
    log_probabilities = nn.log_softmax(logits, classes, where)
    chosen = pnp.take_along_axis(log_probabilities, pnp.expand_dims(pnp.asarray(labels), classes), axis=classes)
    return -pnp.squeeze(chosen, axis=classes)


def poly_loss_cross_entropy(
    logits: Any, labels: Any, *, epsilon: Any = 2.0, axis: int | tuple[int, ...] | None = -1, where: Any = None
) -> Any:
    """Cross entropy with a stronger first term of its expansion.

    Parameters
    ----------
    logits : floating[..., classes]
        Scores z.
    labels : [..., classes]
        Distributions y that sum to 1.
    epsilon : float
        Weight of the extra term.
    axis, where
        As in `softmax_cross_entropy`.

    Returns
    -------
    floating[...]
        cross entropy + epsilon * (1 - sum y softmax(z)). Source: Leng et al. 2022.
    """
    given = pnp.sum(labels * nn.softmax(logits, axis, where), axis=axis, where=where)
    return softmax_cross_entropy(logits, labels, axis, where) + epsilon * (1 - given)


def smooth_labels(labels: Any, alpha: Any, *, axis: int | tuple[int, ...] | None = -1, where: Any = None) -> Any:
    """Mix label distributions with the uniform distribution.

    Parameters
    ----------
    labels : floating[..., classes]
        Distributions y.
    alpha : float
        Weight of the uniform distribution.
    axis : int, tuple of int or None
        The axis of the classes.
    where : bool[..., classes], optional
        Classes to count.

    Returns
    -------
    floating[..., classes]
        (1 - alpha) y + alpha / classes. Source: Mueller et al. 2019.
    """
    _check_floating("labels", labels)
    labels = pnp.asarray(labels)
    if where is not None:
        classes = pnp.sum(pnp.broadcast_to(where, labels.shape), axis=axis, keepdims=True)
    else:
        axes = range(labels.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        classes = int(np.prod([labels.shape[a] for a in axes]))
    smooth = (1.0 - alpha) * labels + alpha / classes
    return smooth if where is None else pnp.where(where, smooth, 0)


def hinge_loss(predictor_outputs: Any, targets: Any) -> Any:
    """Hinge loss of two classes.

    Parameters
    ----------
    predictor_outputs : floating[...]
        Scores z.
    targets : [...]
        Classes y in {-1, 1}.

    Returns
    -------
    floating[...]
        max(0, 1 - z y).
    """
    return pnp.maximum(0, 1 - predictor_outputs * targets)


def perceptron_loss(predictor_outputs: Any, targets: Any) -> Any:
    """Perceptron loss of two classes.

    Parameters
    ----------
    predictor_outputs : floating[...]
        Scores z.
    targets : [...]
        Classes y in {-1, 1}.

    Returns
    -------
    floating[...]
        max(0, -z y). Source: Rosenblatt 1958.
    """
    return pnp.maximum(0, -predictor_outputs * targets)


def multiclass_hinge_loss(scores: Any, labels: Any) -> Any:
    """Hinge loss of many classes.

    Parameters
    ----------
    scores : floating[..., classes]
        Scores z.
    labels : integer[...]
        The right classes.

    Returns
    -------
    floating[...]
        max_k(z[k] + (k is not the label)) - z[label]. Source: Crammer and Singer 2001.
    """
    chosen = nn.one_hot(labels, pnp.shape(scores)[-1], dtype=pnp.result_type(scores))
    return pnp.max(scores + 1.0 - chosen, axis=-1) - pnp.sum(scores * chosen, axis=-1)


def multiclass_perceptron_loss(scores: Any, labels: Any) -> Any:
    """Perceptron loss of many classes.

    Parameters
    ----------
    scores : floating[..., classes]
        Scores z.
    labels : integer[...]
        The right classes.

    Returns
    -------
    floating[...]
        max_k z[k] - z[label]. Source: Rosenblatt 1958.
    """
    chosen = nn.one_hot(labels, pnp.shape(scores)[-1], dtype=pnp.result_type(scores))
    return pnp.max(scores, axis=-1) - pnp.sum(scores * chosen, axis=-1)


def sparsemax_loss(logits: Any, labels: Any) -> Any:
    """Loss of yes/no labels whose probabilities may be exactly 0 and 1.

    Parameters
    ----------
    logits : floating[...]
        Scores.
    labels : integer[...]
        0 or 1.

    Returns
    -------
    floating[...]
        0 for z <= -1, (z + 1)^2 / 4 up to z = 1, then z, where z is the score against the label.
        Source: Martins and Astudillo 2016.
    """
    against = pnp.where(labels, -logits, logits)
    return pnp.where(against <= -1.0, 0.0, pnp.where(against >= 1.0, against, (against + 1.0) ** 2 / 4))


def multiclass_sparsemax_loss(scores: Any, labels: Any) -> Any:
    """Loss of classes whose probabilities (the projection onto the simplex) may be exactly 0.

    Parameters
    ----------
    scores : floating[..., classes]
        Scores z.
    labels : integer[...]
        The right classes.

    Returns
    -------
    floating[...]
        <z, p> - ||p||^2 / 2 + 1/2 - z[label], p the projection of z. Source: Martins and Astudillo 2016.
    """
    scores = pnp.asarray(scores)
    project = projection_simplex
    for _ in range(scores.ndim - 1):
        project = vmap(project)
    p = project(scores)
    chosen = nn.one_hot(labels, scores.shape[-1], dtype=scores.dtype)
    return pnp.sum(scores * p - p**2 / 2 - scores * chosen, axis=-1) + 0.5


def kl_divergence(log_predictions: Any, targets: Any, axis: Any = -1, where: Any = None) -> Any:
    """Kullback-Leibler divergence of predictions from target distributions.

    Parameters
    ----------
    log_predictions : floating[..., classes]
        log q.
    targets : floating[..., classes]
        p, which may hold zeros.
    axis : int, tuple of int or None
        The axis of the classes.
    where : bool[..., classes], optional
        Classes to count.

    Returns
    -------
    floating[...]
        sum p (log p - log q), 0 where p = 0. Source: Kullback and Leibler 1951.
    """
    _check_floating("log_predictions", log_predictions)
    positive = targets > 0
    log_targets = pnp.log(pnp.where(positive, targets, 1))
    return pnp.sum(pnp.where(positive, targets * (log_targets - log_predictions), 0), axis=axis, where=where)


def kl_divergence_with_log_targets(log_predictions: Any, log_targets: Any, axis: Any = -1, where: Any = None) -> Any:
    """Kullback-Leibler divergence of predictions from targets given as logarithms.

    Parameters
    ----------
    log_predictions, log_targets : floating[..., classes]
        log q and log p.
    axis, where
        As in `kl_divergence`.

    Returns
    -------
    floating[...]
        sum p (log p - log q).
    """
    _check_floating("log_predictions", log_predictions)
    return pnp.sum(pnp.exp(log_targets) * (log_targets - log_predictions), axis=axis, where=where)


def convex_kl_divergence(log_predictions: Any, targets: Any, axis: Any = -1, where: Any = None) -> Any:
    """Kullback-Leibler divergence of unnormalised distributions, convex in both (the generalised form).

    Parameters
    ----------
    log_predictions : floating[..., classes]
        log q.
    targets : floating[..., classes]
        p.
    axis, where
        As in `kl_divergence`.

    Returns
    -------
    floating[...]
        sum p (log p - log q) + q - p.
    """
    excess = pnp.sum(pnp.exp(log_predictions) - targets, axis=axis, where=where)
    return kl_divergence(log_predictions, targets, axis, where) + excess


generalized_kl_divergence = convex_kl_divergence
