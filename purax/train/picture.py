# SPDX-License-Identifier: Apache-2.0
"""Pictures of a training, drawn by matplotlib (which is loaded only when a picture is asked for)."""

from __future__ import annotations

import os

from purax.lazy import lazy
from purax.train.metrics import History

__all__ = ["draw_history"]

_INSTALL = "install it by `pip install 'purax[train]'`, to draw the loss curve"
_figure = lazy("matplotlib.figure", _INSTALL)
_agg = lazy("matplotlib.backends.backend_agg", _INSTALL)


def draw_history(path: str | os.PathLike[str], history: History, title: str = "training") -> None:
    """Draw the loss of each step, its running mean, and what was measured in each epoch.

    Parameters
    ----------
    path : path
        A file that ends in .png or another ending that matplotlib knows.
    history : History
        What to draw.
    title : str
        Stands above the curves.
    """
    # A figure with its own canvas: no global state, no window, whatever backend the user has chosen.
    figure = _figure.Figure(figsize=(7, 4), dpi=120, layout="constrained")
    _agg.FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps = range(1, len(history.losses) + 1)
    axes.plot(steps, history.losses, color="0.75", linewidth=0.8, label="loss of a batch")
    axes.plot(steps, history.smooth_losses(), color="tab:blue", label="running mean")
    if history.losses and min(history.losses) > 0:
        axes.set_yscale("log")
    axes.set(xlabel="step", ylabel="loss", title=title)
    lines, labels = axes.get_legend_handles_labels()
    names = [name for name in (history.epochs[0] if history.epochs else {}) if name != "step"]
    if names:
        right = axes.twinx()
        for name, colour in zip(names, ("tab:orange", "tab:green", "tab:red"), strict=False):
            right.plot(
                [epoch["step"] for epoch in history.epochs], [epoch[name] for epoch in history.epochs], color=colour,
                marker=".", label=name,
            )  # fmt: skip
        right.set_ylabel(", ".join(names))
        more_lines, more_labels = right.get_legend_handles_labels()
        lines, labels = lines + more_lines, labels + more_labels
    axes.legend(lines, labels, loc="center right")
    figure.savefig(path)
