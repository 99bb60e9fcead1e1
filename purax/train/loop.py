# SPDX-License-Identifier: Apache-2.0
"""The loop around a training step: epochs, progress, checkpoints, and an orderly end on Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from purax.train.metrics import History
from purax.train.progress import Progress

__all__ = ["Result", "fit"]


class Interrupt:
    """Ctrl-C as a request that the loop looks at between steps: `with Interrupt() as interrupt: ... interrupt.asked`.

    An exception at any other moment could be raised inside a callback, where it is lost, or inside the runtime, which it can take
    down. A second Ctrl-C does raise KeyboardInterrupt. In a thread other than the main one, which gets no signals, nothing changes.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class Result(NamedTuple):
    """The last state, the course of the training, and whether it was interrupted."""

    state: Any
    history: History
    interrupted: bool


def fit(
    state: Any,
    step: Callable[[Any, Any], tuple[Any, Any]],
    epoch_batches: Callable[[int], Iterable[Any]],
    *,
    epochs: int,
    steps_per_epoch: int,
    first_epoch: int = 0,
    evaluate: Callable[[Any], Mapping[str, Any]] | None = None,
    on_epoch: Callable[[Any, History], None] | None = None,
    on_first_loss: Callable[[float], None] | None = None,
    progress: bool = True,
    label: str = "training",
) -> Result:
    """Train for some epochs.

    Parameters
    ----------
    state : tree
        The first state, such as a `TrainState`.
    step : callable
        `step(state, batch) -> (state, loss)`, usually jitted.
    epoch_batches : callable
        `epoch_batches(epoch)` gives the batches of an epoch; epochs count from 0.
    epochs, steps_per_epoch : int
        How many epochs there are in all, and how many steps in each.
    first_epoch : int
        Where to start: how many epochs the state has behind it.
    evaluate : callable, optional
        `evaluate(state)` gives numbers by name at the end of each epoch.
    on_epoch : callable, optional
        `on_epoch(state, history)` at the end of each epoch, such as saving a checkpoint.
    on_first_loss : callable, optional
        Gets the loss of the first step as soon as it is there.
    progress : bool
        Show a progress bar.
    label : str
        What the bar calls the work.

    Returns
    -------
    Result
        On Ctrl-C the state after the last whole step, with `interrupted` True.
    """
    history = History()
    pending: Any = None  # the loss of the last step: read one step late, so that the device never waits for the host

    def settle(bar: Progress) -> None:
        nonlocal pending
        if pending is not None:
            history.add_loss(pending)
            pending = None
            bar.update(loss=history.losses[-1])

    with Interrupt() as interrupt, Progress(epochs * steps_per_epoch, label, enabled=progress) as bar:
        bar.update(first_epoch * steps_per_epoch)
        try:
            for epoch in range(first_epoch, epochs):
                for batch in epoch_batches(epoch):
                    next_state, loss = step(state, batch)
                    settle(bar)
                    state, pending = next_state, loss
                    if interrupt.asked:
                        return Result(state, history, True)
                    if on_first_loss is not None:
                        on_first_loss(float(loss))
                        on_first_loss = None
                settle(bar)
                numbers = dict(evaluate(state)) if evaluate is not None else {}
                history.end_epoch(**numbers)
                bar.update(0, **{name: float(value) for name, value in numbers.items()})
                if on_epoch is not None:
                    on_epoch(state, history)
        except KeyboardInterrupt:
            return Result(state, history, True)
    return Result(state, history, False)
