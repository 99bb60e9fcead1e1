# SPDX-License-Identifier: Apache-2.0
"""Find a hidden shape from its echoes: the wave equation, inverted by gradients through all of its time steps.

Sources at the surface send pulses into a square block; receivers at the surface record what comes back. The speed of sound inside is
found by making a simulation's records equal to those measured. Reverse mode keeps the waves of all time steps, or, with checkpointing,
those of a few and computes the others again: the program says what both need before it runs.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import purax
from purax import lax, optim
from purax import numpy as pnp
from purax.train import Progress

SPACING, TIME_STEP, BACKGROUND = 10.0, 0.0015, 2000.0  # metres, seconds, metres per second


class Result(NamedTuple):
    """Loss per step, the speeds found and true, and the peak memory in bytes of a gradient without and with checkpointing."""

    losses: np.ndarray
    found: np.ndarray
    true: np.ndarray
    memory: tuple[int, int]


def hidden(size: int) -> np.ndarray:
    """Speeds of sound: a slow disc in a homogeneous block."""
    row, col = np.mgrid[:size, :size] / size
    disc = (row - 0.5) ** 2 + (col - 0.45) ** 2 < 0.15**2
    return np.where(disc, 0.85 * BACKGROUND, BACKGROUND).astype(np.float32)


def absorbing(size: int, width: int) -> np.ndarray:
    """Damping that swallows waves at the edges."""
    distance = np.minimum(np.arange(size), np.arange(size)[::-1])
    one = np.exp(-((0.25 * np.maximum(width - distance, 0) / width) ** 2))
    return np.outer(one, one).astype(np.float32)


def pulse(steps: int) -> np.ndarray:
    """A wavelet of Ricker with its peak at 15 Hz."""
    t = np.pi * 15 * (np.arange(steps) * TIME_STEP - 0.08)
    return ((1 - 2 * t**2) * np.exp(-(t**2))).astype(np.float32)


def record(speed: Any, source: Any, steps: int, chunk: int | None) -> Any:
    """What receivers along the top record: second-order differences in space and time.

    With `chunk`, the waves are kept only between chunks of so many steps.
    """
    size = speed.shape[0]
    damping, factor = absorbing(size, max(size // 8, 2)), (speed * TIME_STEP / SPACING) ** 2
    depth = max(size // 8, 2) + 1

    def step(waves: Any, force: Any) -> Any:
        before, now = waves
        padded = pnp.pad(now, 1)
        curvature = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * now
        after = damping * (2 * now - before + factor * curvature)
        after = after.at[depth, source].add(force)
        return (damping * now, after), after[depth]

    still = pnp.zeros((size, size), pnp.float32)
    forces = pnp.asarray(pulse(steps))
    if chunk is None:
        return lax.scan(step, (still, still), forces)[1]
    block = purax.checkpoint(lambda waves, forces: lax.scan(step, waves, forces))
    _, rows = lax.scan(block, (still, still), forces.reshape(-1, chunk))
    return rows.reshape(steps, size)


def peak_memory(gradient: Any, *args: Any) -> int:
    """Bytes that the compiled gradient needs beside its arguments and results."""
    return int(purax.jit(gradient).lower(*args).compile().memory_analysis().temp_size_in_bytes)


def run(steps: int = 150, size: int = 64, times: int = 400, sources: int = 6, picture: str | None = None) -> Result:
    """Simulate the measurement, invert it, draw what was found."""
    true = hidden(size)
    places = np.linspace(0.15 * size, 0.85 * size, sources).astype(np.int32)
    chunk = max(c for c in range(1, times + 1) if times % c == 0 and c * c <= times)
    simulate = purax.vmap(partial(record, steps=times, chunk=chunk), in_axes=(None, 0))
    measured = purax.jit(simulate)(true, places)
    scale = pnp.max(pnp.abs(measured))

    def loss(model: Any, chunk: int | None) -> Any:
        simulate = purax.vmap(partial(record, steps=times, chunk=chunk), in_axes=(None, 0))
        return 0.5 * pnp.sum(((simulate(BACKGROUND * (1 + model), places) - measured) / scale) ** 2)

    model = pnp.zeros((size, size), pnp.float32)
    whole, saving = (purax.value_and_grad(partial(loss, chunk=c)) for c in (None, chunk))
    memory = peak_memory(whole, model), peak_memory(saving, model)
    optimizer = optim.adam(optim.cosine_decay_schedule(0.01, steps, 0.1))

    @purax.jit
    def step(model: Any, state: Any) -> Any:
        value, gradient = saving(model)
        updates, state = optimizer.update(gradient, state, model)
        return pnp.clip(optim.apply_updates(model, updates), -0.3, 0.3), state, value

    state, losses = optimizer.init(model), []
    with Progress(steps, "invert") as bar:
        for _ in range(steps):
            model, state, value = step(model, state)
            losses.append(float(value))
            bar.update(loss=losses[-1])
    result = Result(np.array(losses), np.asarray(BACKGROUND * (1 + model)), true, memory)
    if picture:
        draw(picture, np.asarray(measured[sources // 2]), result)
    return result


def draw(path: str, measured: Any, result: Result) -> None:
    """The true block, the one found, a record, and the loss."""
    figure = Figure(figsize=(12, 3.2), dpi=120, layout="constrained")
    panels = figure.subplots(1, 4)
    limits = {"vmin": 0.8 * BACKGROUND, "vmax": 1.1 * BACKGROUND}
    for panel, speeds, title in ((panels[0], result.true, "hidden"), (panels[1], result.found, "found")):
        image = panel.imshow(speeds, **limits)
        panel.set_title(f"{title} speed in m/s")
    figure.colorbar(image, ax=list(panels[:2]))
    panels[2].imshow(measured, aspect="auto", cmap="gray")
    panels[2].set(title="one record", xlabel="receiver", ylabel="time step")
    panels[3].semilogy(result.losses)
    panels[3].set(title="loss", xlabel="step")
    figure.savefig(path)


def main() -> None:
    """Run at full size and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--picture", default=str(Path(__file__).with_suffix(".png")))
    options = parser.parse_args()
    result = run(options.steps, picture=options.picture)
    plain, saving = (m / 2**20 for m in result.memory)
    print(f"peak memory of a gradient: {plain:.1f} MiB, with checkpointing {saving:.1f} MiB")
    print(f"loss {result.losses[0]:.3g} -> {result.losses[-1]:.3g}; picture in {options.picture}")


if __name__ == "__main__":
    main()
