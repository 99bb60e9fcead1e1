# SPDX-License-Identifier: Apache-2.0
"""`purax train digits`: train, test, draw, save."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from purax import events
from purax.train.checkpoint import save_params
from purax.train.digits import Settings, save_training, train_digits
from purax.train.metrics import History
from purax.train.picture import draw_history
from purax.train.state import TrainState

__all__ = ["run"]

_LOADED = time.monotonic()


def _seconds_since_start() -> float:
    """Give the age of the process where the system tells it, else the time since this module was loaded."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic() - _LOADED


class _Programs:
    """Counts the programs that were compiled, and those that came from disk."""

    def __init__(self) -> None:
        self.compiled = 0
        self.loaded = 0

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, events.Compiled):
            self.compiled += 1
        elif isinstance(event, events.CacheHit) and event.where == "disk":
            self.loaded += 1


def run(options: argparse.Namespace) -> int:
    """Train on the digits as the options say.

    Parameters
    ----------
    options : argparse.Namespace
        Of `purax train`.

    Returns
    -------
    int
        0, or 130 after Ctrl-C.

    Raises
    ------
    ModuleNotFoundError
        What saves parameters, or draws the curve, is not installed.
    """
    # Said before the training, not after it.
    needed = ("safetensors",) if options.no_picture else ("safetensors", "matplotlib")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"{' and '.join(missing)}: not installed, and needed to save what is learned: pip install 'purax[train]'",
            name=missing[0],
        )
    settings = Settings(options.epochs, options.batch_size, options.seed, options.optimizer, options.learning_rate)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "params.safetensors"
    checkpoint = folder / "checkpoint.safetensors"
    programs = _Programs()
    stop = events.subscribe(programs)

    def describe(accuracy: float) -> dict[str, str]:
        return {"model": "purax digits", "accuracy": f"{accuracy:.6f}"} | {
            name: str(value) for name, value in settings._asdict().items()
        }

    def keep(state: TrainState, history: History) -> None:
        save_params(path, state.params, describe(history.epochs[-1]["accuracy"]))
        save_training(checkpoint, state, settings)

    def report_first(loss: float) -> None:
        print(
            f"first loss {loss:.3f} after {_seconds_since_start():.2f} s "
            f"({programs.compiled} programs compiled, {programs.loaded} from the cache)"
        )

    try:
        result, accuracy = train_digits(
            settings,
            resume_from=checkpoint if options.resume else None,
            on_epoch=keep,
            on_first_loss=report_first,
            progress=not options.quiet,
        )
    finally:
        stop()
    if result.interrupted:
        finished = len(result.history.epochs)
        kept = f"{path} holds the last whole epoch, and --resume goes on" if finished else "no epoch was finished"
        print(f"interrupted; {kept}", file=sys.stderr)
        return 130
    print(f"test accuracy {100 * accuracy:.1f} %")
    saved = [path]
    if not options.no_picture:
        saved.append(folder / "loss.png")
        draw_history(saved[-1], result.history, f"digits: test accuracy {100 * accuracy:.1f} %")
    print(f"saved {' and '.join(str(name) for name in saved)} ({_seconds_since_start():.1f} s in all)")
    return 0
