# SPDX-License-Identifier: Apache-2.0
"""Fit a double pendulum to noisy measurements of its angles, by gradients through the solver of its equations of motion.

Unknown are the ratio of the masses, the two lengths, and how it was let go. Chaos makes long records hard to fit at once: the loss over
all of the record has many minima. So the part that is fitted grows, and each fit starts from the one before.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import purax
from purax import numpy as pnp
from purax import optim
from purax.experimental.ode import odeint
from purax.train import Progress

GRAVITY = 9.81
TRUE = {"mass": np.log(0.7), "lengths": np.log([1.0, 0.6]), "angles": np.array([1.8, 1.2])}
START = {"mass": np.log(1.0), "lengths": np.log([0.8, 0.8]), "angles": np.array([1.6, 1.0])}


class Result(NamedTuple):
    """Loss per step, parameters by name (found and true), and root mean square of the residuals over the noise."""

    losses: np.ndarray
    found: dict[str, np.ndarray]
    true: dict[str, np.ndarray]
    misfit: float


def motion(state: Any, t: Any, params: Any) -> Any:
    """Rates of the angles (from the vertical) and their speeds; masses 1 and `mass`, on massless rods."""
    first, second, speed1, speed2 = state
    mass = pnp.exp(params["mass"])
    l1, l2 = pnp.exp(params["lengths"])
    # The two equations of Lagrange are linear in the accelerations: matrix @ accelerations = forces.
    cosine, sine = pnp.cos(first - second), pnp.sin(first - second)
    matrix = pnp.array([[(1 + mass) * l1, mass * l2 * cosine], [l1 * cosine, l2]])
    forces = pnp.stack([
        -mass * l2 * speed2**2 * sine - (1 + mass) * GRAVITY * pnp.sin(first),
        l1 * speed1**2 * sine - GRAVITY * pnp.sin(second),
    ])  # fmt: skip
    acceleration = pnp.linalg.solve(matrix, forces)
    return pnp.stack([speed1, speed2, *acceleration])


def angles(params: Any, times: Any) -> Any:
    """Both angles at all times, from rest."""
    start = pnp.concatenate([params["angles"], pnp.zeros(2)])
    return odeint(motion, start, times, params, rtol=1e-5, atol=1e-5, mxstep=2000)[:, :2]


def run(
    steps: int = 120, samples: int = 60, seconds: float = 3.0, noise: float = 0.05, picture: str | None = None
) -> Result:
    """Make the measurements, fit them, draw the fit."""
    times = np.linspace(0, seconds, samples, dtype=np.float32)
    true = purax.tree.map(lambda x: np.asarray(x, np.float32), TRUE)
    measured = np.asarray(angles(true, times)) + noise * np.random.default_rng(0).normal(size=(samples, 2)).astype(
        np.float32
    )
    params = purax.tree.map(lambda x: np.asarray(x, np.float32), START)

    def loss(params: Any, weights: Any) -> Any:
        residual = (angles(params, times) - measured) / noise
        return pnp.sum(weights[:, None] * residual**2) / pnp.sum(2 * weights)

    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(optim.cosine_decay_schedule(0.05, steps, 0.05)))

    @purax.jit
    def step(params: Any, state: Any, weights: Any) -> Any:
        value, gradient = purax.value_and_grad(loss)(params, weights)
        updates, state = optimizer.update(gradient, state, params)
        return optim.apply_updates(params, updates), state, value

    state, losses = optimizer.init(params), []
    with Progress(steps, "fit") as bar:
        for i in range(steps):
            until = seconds * min(0.25 + i / (0.7 * steps), 1.0)
            params, state, value = step(params, state, (times <= until).astype(np.float32))
            losses.append(float(value))
            bar.update(loss=losses[-1])
    misfit = float(np.sqrt(loss(params, np.ones(samples, np.float32))))
    result = Result(np.array(losses), purax.tree.map(np.asarray, params), true, misfit)
    if picture:
        draw(picture, times, measured, np.asarray(angles(params, times)), result)
    return result


def draw(path: str, times: Any, measured: Any, fitted: Any, result: Result) -> None:
    """Measurements with the fit, and the loss."""
    figure = Figure(figsize=(9, 4), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, colour in enumerate(("tab:blue", "tab:orange")):
        left.plot(times, measured[:, i], ".", color=colour, alpha=0.6, label=f"angle {i + 1}, measured")
        left.plot(times, fitted[:, i], color=colour, label="fitted")
    left.set(xlabel="time in s", ylabel="angle in rad", title="double pendulum")
    left.legend()
    right.semilogy(result.losses)
    right.set(
        xlabel="step", ylabel="mean square of the residuals over the noise", title="loss of the part that is fitted"
    )
    figure.savefig(path)


def main() -> None:
    """Run at full size and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--picture", default=str(Path(__file__).with_suffix(".png")))
    options = parser.parse_args()
    result = run(options.steps, picture=options.picture)
    for name, found in result.found.items():
        scale = np.asarray if name == "angles" else np.exp
        print(f"{name:8} found {scale(found).round(3).tolist()}, true {scale(result.true[name]).round(3).tolist()}")
    print(f"residuals are {result.misfit:.2f} times the noise; picture in {options.picture}")


if __name__ == "__main__":
    main()
