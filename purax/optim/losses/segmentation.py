# SPDX-License-Identifier: Apache-2.0
"""Losses for overlap of regions."""

from __future__ import annotations

from typing import Any, Literal

from purax import nn
from purax import numpy as pnp

__all__ = ["binary_dice_loss", "dice_loss", "multiclass_generalized_dice_loss"]


def _probabilities(predictions: Any, apply_softmax: bool) -> Any:
    if not apply_softmax:
        return predictions
    return nn.sigmoid(predictions) if predictions.shape[-1] == 1 else nn.softmax(predictions, axis=-1)


def dice_loss(
    predictions: Any,
    targets: Any,
    *,
    class_weights: Any = None,
    smooth: Any = 1.0,
    alpha: Any = 0.5,
    beta: Any = 0.5,
    apply_softmax: bool = True,
    reduction: Literal["mean", "sum", "none"] = "mean",
    ignore_background: bool = False,
    axis: int | tuple[int, ...] | None = None,
) -> Any:
    """One minus the overlap of predicted and true regions, class by class (Dice; Tversky for other weights).

    Parameters
    ----------
    predictions : floating[batch, ..., classes]
        Scores, or probabilities p.
    targets : [batch, ..., classes]
        One-hot classes t.
    class_weights : [classes], optional
        How much each class counts.
    smooth : float
        Added above and below the fraction.
    alpha, beta : float
        Weights of false positives and of false negatives.
    apply_softmax : bool
        Turn scores into probabilities.
    reduction : "mean", "sum" or "none"
        What to do with the classes.
    ignore_background : bool
        Leave out class 0.
    axis : int or tuple of int, optional
        The axes of places; all but the first and the last if left out.

    Returns
    -------
    floating[batch] or floating[batch, classes]
        1 - (I + smooth) / (I + alpha (P - I) + beta (T - I) + smooth), I = sum p t, P = sum p, T = sum t.
        Source: Milletari et al. 2016; Salehi et al. 2017.

    Raises
    ------
    ValueError
        If the reduction is not known.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"dice_loss: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    predictions, targets = pnp.asarray(predictions), pnp.asarray(targets)
    p = _probabilities(predictions, apply_softmax)
    if ignore_background and p.shape[-1] > 1:
        p, targets = p[..., 1:], targets[..., 1:]
        class_weights = None if class_weights is None else class_weights[1:]
    axes = tuple(range(1, p.ndim - 1)) if axis is None else axis
    both = pnp.sum(p * targets, axis=axes)
    predicted, true = pnp.sum(p, axis=axes), pnp.sum(targets, axis=axes)
    overlap = (both + smooth) / (both + alpha * (predicted - both) + beta * (true - both) + smooth)
    losses = 1.0 - overlap
    if class_weights is not None:
        losses = losses * class_weights
    if reduction == "none":
        return losses
    return pnp.mean(losses, axis=-1) if reduction == "mean" else pnp.sum(losses, axis=-1)


def multiclass_generalized_dice_loss(
    predictions: Any,
    targets: Any,
    *,
    smooth: Any = 1.0,
    apply_softmax: bool = True,
    ignore_background: bool = False,
) -> Any:
    """Dice loss with each class weighted by the inverse square of its size, so that small regions count as large ones.

    Parameters
    ----------
    predictions, targets, smooth, apply_softmax, ignore_background
        As in `dice_loss`.

    Returns
    -------
    floating[]
        Mean over batch and classes of w_c * dice_c, w_c proportional to 1 / T_c^2 with mean 1; a class that does not
        occur counts as nothing. Source: Sudre et al. 2017.
    """
    targets = pnp.asarray(targets)
    sizes = pnp.sum(targets, axis=tuple(range(targets.ndim - 1)))
    present = sizes > 0
    if ignore_background and sizes.shape[0] > 1:
        present = present.at[0].set(False)
    inverse = pnp.where(present, 1.0 / pnp.where(present, sizes, 1.0) ** 2, 0.0)
    weights = inverse * (pnp.sum(present) / pnp.maximum(pnp.sum(inverse), pnp.finfo(inverse.dtype).tiny))
    losses = dice_loss(
        predictions,
        targets,
        class_weights=weights,
        smooth=smooth,
        apply_softmax=apply_softmax,
        reduction="none",
        ignore_background=ignore_background,
    )
    return pnp.mean(losses)


def binary_dice_loss(predictions: Any, targets: Any, *, smooth: Any = 1.0, apply_sigmoid: bool = True) -> Any:
    """Dice loss of one region.

    Parameters
    ----------
    predictions : floating[batch, ...] or floating[batch, ..., 1]
        Scores, or probabilities.
    targets : [batch, ...] or [batch, ..., 1]
        0 or 1.
    smooth : float
        As in `dice_loss`.
    apply_sigmoid : bool
        Turn scores into probabilities.

    Returns
    -------
    floating[batch]
        As `dice_loss`.
    """
    predictions, targets = pnp.asarray(predictions), pnp.asarray(targets)
    p = nn.sigmoid(predictions) if apply_sigmoid else predictions
    if p.ndim < 2 or p.shape[-1] != 1:
        p, targets = p[..., None], targets[..., None]
    return dice_loss(p, targets, smooth=smooth, apply_softmax=False)
