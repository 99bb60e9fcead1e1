# SPDX-License-Identifier: Apache-2.0
"""Numbers that tell how training goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import numpy as pnp

__all__ = ["History", "Mean", "accuracy", "count_correct"]


def count_correct(logits: Any, labels: Any) -> Any:
    """Count the examples whose highest score is that of the right class.

    Parameters
    ----------
    logits : floating[..., classes]
        Scores.
    labels : integer[...]
        The right classes; negative ones (padding) count as wrong.

    Returns
    -------
    int32[]
        The number of right answers.
    """
    return pnp.sum(pnp.argmax(logits, axis=-1) == labels, dtype=pnp.int32)


def accuracy(logits: Any, labels: Any) -> Any:
    """Give the fraction of examples whose highest score is that of the right class.

    Parameters
    ----------
    logits : floating[..., classes]
        Scores.
    labels : integer[...]
        The right classes.

    Returns
    -------
    float32[]
        Between 0 and 1.
    """
    return pnp.mean(pnp.argmax(logits, axis=-1) == labels, dtype=pnp.float32)


class Mean:
    """A running mean in float64, on the host.

    Examples
    --------
    >>> mean = Mean()
    >>> mean.add(1.0)
    >>> mean.add(4.0, weight=2)
    >>> mean.value
    3.0
    """

    def __init__(self) -> None:
        self._total = 0.0
        self._weight = 0.0

    def add(self, value: Any, weight: float = 1.0) -> None:
        """Take in a value.

        Parameters
        ----------
        value : float scalar
            The value.
        weight : float
            How much it counts.
        """
        self._total += float(value) * weight
        self._weight += weight

    @property
    def value(self) -> float:
        """The mean so far, NaN before the first value."""
        return self._total / self._weight if self._weight else float("nan")


class History:
    """The course of a training: a loss for each step, and further numbers for each epoch."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.epochs: list[dict[str, float]] = []

    def add_loss(self, loss: Any) -> None:
        """Take in the loss of one step.

        Parameters
        ----------
        loss : float scalar
            The loss.
        """
        self.losses.append(float(loss))

    def end_epoch(self, **numbers: Any) -> None:
        """Close an epoch.

        Parameters
        ----------
        **numbers
            What was measured, by name.
        """
        self.epochs.append({name: float(value) for name, value in numbers.items()} | {"step": float(len(self.losses))})

    def smooth_losses(self, decay: float = 0.95) -> np.ndarray:
        """Give the exponential moving average of the losses.

        Parameters
        ----------
        decay : float
            How slowly it forgets.

        Returns
        -------
        float64[steps]
            Freed of its start at zero.
        """
        smooth, total = np.empty(len(self.losses)), 0.0
        for index, loss in enumerate(self.losses):
            total = decay * total + (1 - decay) * loss
            smooth[index] = total / (1 - decay ** (index + 1))
        return smooth
