# SPDX-License-Identifier: Apache-2.0
"""Training: the state, the loop, metrics, pictures and checkpoints."""

from purax.train import checkpoint
from purax.train.loop import Result, fit
from purax.train.metrics import History, Mean, accuracy, count_correct
from purax.train.picture import draw_history
from purax.train.progress import Progress
from purax.train.state import TrainState

__all__ = [
    "History",
    "Mean",
    "Progress",
    "Result",
    "TrainState",
    "accuracy",
    "checkpoint",
    "count_correct",
    "draw_history",
    "fit",
]
