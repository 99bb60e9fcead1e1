# SPDX-License-Identifier: Apache-2.0
"""Descent by signs: signSGD and its momentum form, Signum."""

from __future__ import annotations

from typing import Any

from purax.optim.base import GradientTransformation, ScalarOrSchedule
from purax.optim.combine import chain
from purax.optim.scale import ema, scale_by_learning_rate, scale_by_sign

__all__ = ["sign_sgd", "signum"]


def sign_sgd(learning_rate: ScalarOrSchedule) -> GradientTransformation:
    """Sign descent: each element moves by the learning rate.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.

    Returns
    -------
    GradientTransformation
        p <- p - a * sign(g). Source: Bernstein et al. 2018.
    """
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


def signum(learning_rate: ScalarOrSchedule, beta: Any = 0.9, accumulator_dtype: Any = None) -> GradientTransformation:
    """Signum: each element moves by the learning rate against the sign of the averaged gradient.

    Parameters
    ----------
    learning_rate : float scalar or callable
        a in the equation, or a schedule for it.
    beta : float scalar
        Decay of the average.
    accumulator_dtype : dtype, optional
        The dtype of the average; that of the parameters if left out.

    Returns
    -------
    GradientTransformation
        m <- beta m + (1 - beta) g; p <- p - a * sign(m). Source: Bernstein et al. 2018.
    """
    return chain(
        ema(beta, debias=False, accumulator_dtype=accumulator_dtype),
        scale_by_sign(),
        scale_by_learning_rate(learning_rate),
    )
