# SPDX-License-Identifier: Apache-2.0
"""Losses for sequences and rankings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import nn
from purax import numpy as pnp
from purax.control.loop import scan

__all__ = ["ctc_loss", "ctc_loss_with_forward_probs", "ranking_softmax_loss"]


def ctc_loss_with_forward_probs(
    logits: Any,
    logit_paddings: Any,
    labels: Any,
    label_paddings: Any,
    *,
    blank_id: int = 0,
    log_epsilon: float = -1e5,
) -> tuple[Any, Any, Any]:
    """Connectionist temporal classification, with the forward variables.

    Parameters
    ----------
    logits, logit_paddings, labels, label_paddings, blank_id, log_epsilon
        As in `ctc_loss`.

    Returns
    -------
    tuple
        The loss, floating[batch]; the log probabilities of having emitted n labels and then a blank, floating[time,
        batch, labels + 1]; and of having just emitted label n, floating[time, batch, labels].
    """
    batch, _, _ = logits.shape
    count = labels.shape[1]
    log_p = nn.log_softmax(logits)
    label_lengths = count - pnp.sum(label_paddings, axis=1).astype(pnp.int32)
    # A label may follow an equal one only after a blank.
    repeat = pnp.pad((labels[:, :-1] == labels[:, 1:]).astype(log_p.dtype), ((0, 0), (0, 1)))
    blank = pnp.transpose(log_p[:, :, blank_id : blank_id + 1], (1, 0, 2))
    one_hot = nn.one_hot(labels, logits.shape[2], dtype=log_p.dtype)
    emit = pnp.transpose(pnp.einsum("btk,bnk->btn", log_p, one_hot), (1, 0, 2))

    first_phi = pnp.full((batch, count + 1), log_epsilon, log_p.dtype).at[:, 0].set(0.0)
    first_emit = pnp.full((batch, count), log_epsilon, log_p.dtype)

    def after_emission(phi: Any, score: Any) -> Any:
        return pnp.concatenate([phi[:, :1], pnp.logaddexp(phi[:, 1:], score)], axis=-1)

    def step(carry: tuple[Any, Any], inputs: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        phi, emitted = carry
        emit_now, blank_now, padding = inputs
        # What was emitted before may end (become a blank state) unless the next label is the same: that needs a blank.
        phi_before = after_emission(phi, emitted + log_epsilon * repeat)
        next_emitted = pnp.logaddexp(phi_before[:, :-1] + emit_now, emitted + emit_now)
        next_phi = phi + blank_now
        next_phi = after_emission(next_phi, emitted + blank_now)
        padding = padding[:, None]
        next_emitted = padding * emitted + (1.0 - padding) * next_emitted
        next_phi = padding * phi + (1.0 - padding) * next_phi
        return (next_phi, next_emitted), (next_phi, next_emitted)

    paddings = pnp.transpose(logit_paddings).astype(log_p.dtype)
    (last_phi, last_emit), (phis, emits) = scan(step, (first_phi, first_emit), (emit, blank, paddings))
    final = after_emission(last_phi, last_emit)
    chosen = nn.one_hot(label_lengths, count + 1, dtype=log_p.dtype)
    return -pnp.sum(final * chosen, axis=-1), phis, emits


def ctc_loss(
    logits: Any,
    logit_paddings: Any,
    labels: Any,
    label_paddings: Any,
    *,
    blank_id: int = 0,
    log_epsilon: float = -1e5,
) -> Any:
    """Connectionist temporal classification: sequences of labels without knowing where each begins.

    Parameters
    ----------
    logits : floating[batch, time, classes]
        Scores for each moment.
    logit_paddings : floating[batch, time]
        1 where the input has ended.
    labels : integer[batch, labels]
        The sequence of labels.
    label_paddings : floating[batch, labels]
        1 where the sequence has ended.
    blank_id : int
        The class that means "nothing new".
    log_epsilon : float
        Stands for log 0.

    Returns
    -------
    floating[batch]
        -log of the sum of the probabilities of all alignments. Source: Graves et al. 2006.
    """
    return ctc_loss_with_forward_probs(
        logits, logit_paddings, labels, label_paddings, blank_id=blank_id, log_epsilon=log_epsilon
    )[0]


def ranking_softmax_loss(
    logits: Any,
    labels: Any,
    *,
    where: Any = None,
    weights: Any = None,
    reduce_fn: Callable[..., Any] | None = pnp.mean,
) -> Any:
    """Cross entropy between the scores of a list and the relevance of its items.

    Parameters
    ----------
    logits : floating[..., items]
        Scores.
    labels : floating[..., items]
        Relevance, not normalised.
    where : bool[..., items], optional
        Items to count.
    weights : floating[..., items], optional
        Multiplied into the labels.
    reduce_fn : callable or None
        What to do with the losses of the lists; None gives them all.

    Returns
    -------
    floating[] or floating[...]
        -sum labels log softmax(logits). Source: Cao et al. 2007.
    """
    labels = pnp.asarray(labels).astype(pnp.result_type(logits))
    labels = labels if weights is None else labels * weights
    if where is not None:
        labels = pnp.where(where, labels, 0)
        logits = pnp.where(where, logits, -pnp.inf)
    log_p = nn.log_softmax(logits, axis=-1)
    losses = -pnp.sum(pnp.where(labels == 0, 0, labels * pnp.where(labels == 0, 0, log_p)), axis=-1)
    if reduce_fn is None:
        return losses
    if where is None:
        return reduce_fn(losses)
    return reduce_fn(losses, where=pnp.any(where, axis=-1))
