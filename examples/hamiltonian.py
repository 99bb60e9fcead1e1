# SPDX-License-Identifier: Apache-2.0
"""Hamiltonian Monte Carlo: which pixels tell a handwritten 3 from an 8, and how sure the data make us of it.

Logistic regression on the digits that come with purax (UCI Optical Recognition of Handwritten Digits, CC BY 4.0), with a normal prior
on the weights, whose width is unknown as well. Chains run as lanes of one program. The length of a step is found during the warm-up;
convergence is judged by the ratio of the variances between and within chains.

References
----------
R. M. Neal, "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo, 2011.
M. D. Hoffman, A. Gelman, "The No-U-Turn Sampler", JMLR 15 (2014), section 3.2 (length of the step).
A. Gelman et al., "Bayesian Data Analysis", 3rd ed., section 11.4 (split chains).
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import purax
from purax import lax, nn, random
from purax import numpy as pnp
from purax.data import load_digits
from purax.train import Progress


class Result(NamedTuple):
    """Draws [chain, draw, parameter], their convergence ratio per parameter, share of accepted steps, accuracy on held-out images."""

    draws: np.ndarray
    ratio: np.ndarray
    accepted: float
    accuracy: float


def threes_and_eights() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Pixels with a constant in front, and whether it is an 8: for training and for testing."""
    digits = load_digits()

    def chosen(images: Any, labels: Any) -> tuple[Any, Any]:
        keep = (labels == 3) | (labels == 8)
        pixels = images[keep].reshape(-1, 64) - 0.5
        return np.concatenate([np.ones((len(pixels), 1), np.float32), pixels], axis=1), (labels[keep] == 8).astype(
            np.float32
        )

    return chosen(digits.train_images, digits.train_labels), chosen(digits.test_images, digits.test_labels)


def log_density(params: Any, pixels: Any, eight: Any) -> Any:
    """Logarithm of the posterior, up to a constant: weights ~ N(0, width), log width ~ N(0, 1); the last parameter is log width.

    The others are the weights in units of the width. So they are independent of it a priori, and the chain need not squeeze through
    the neck where the width is small.
    """
    units, log_width = params[:-1], params[-1]
    logits = pixels @ (units * pnp.exp(log_width))
    likelihood = pnp.sum(eight * logits - nn.softplus(logits))
    return likelihood - 0.5 * pnp.sum(units**2) - 0.5 * log_width**2


def transition(key: Any, position: Any, length: Any, density: Any, leaps: int) -> Any:
    """Draw a momentum, follow the motion by `leaps` leapfrog steps, accept or stay; returns also the chance of acceptance."""
    momentum_key, jitter_key, accept_key = random.split(key, 3)
    momentum = random.normal(momentum_key, position.shape)
    length = length * random.uniform(jitter_key, minval=0.8, maxval=1.2)  # no orbit closes on all of its lengths
    slope = purax.grad(density)

    def leap(state: Any, _: Any) -> Any:
        q, p = state
        p = p + 0.5 * length * slope(q)
        q = q + length * p
        return (q, p + 0.5 * length * slope(q)), None

    (q, p), _ = lax.scan(leap, (position, momentum), None, length=leaps)
    energy = lambda q, p: 0.5 * pnp.sum(p**2) - density(q)
    chance = pnp.exp(pnp.minimum(energy(position, momentum) - energy(q, p), 0.0))
    chance = pnp.where(pnp.isnan(chance), 0.0, chance)
    return pnp.where(random.uniform(accept_key) < chance, q, position), chance


def split_ratio(draws: np.ndarray) -> np.ndarray:
    """Potential scale reduction of each parameter; 1 where halves of chains cannot be told apart."""
    chains, count, _ = draws.shape
    halves = draws[:, : count // 2 * 2].reshape(2 * chains, count // 2, -1)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt((within * (1 - 2 / count) + between) / within)


def run(draws: int = 1000, warmup: int = 400, chains: int = 4, leaps: int = 40, picture: str | None = None) -> Result:
    """Sample the posterior, judge it, draw it."""
    (pixels, eight), (test_pixels, test_eight) = threes_and_eights()
    density = lambda params: log_density(params, pixels, eight)

    @purax.jit
    def step(keys: Any, positions: Any, length: Any) -> Any:
        return purax.vmap(lambda k, q: transition(k, q, length, density, leaps))(keys, positions)

    key = random.key(0)
    positions = 0.1 * random.normal(random.fold_in(key, 1), (chains, pixels.shape[1] + 1))
    # dual averaging of the logarithm of the step, towards 80 % accepted
    length, drift, average, kept, chances = 0.02, 0.0, 0.0, [], []
    with Progress(warmup + draws, "sample") as bar:
        for i in range(warmup + draws):
            positions, chance = step(random.split(random.fold_in(key, i + 2), chains), positions, length)
            chance = float(chance.mean())
            if i < warmup:
                share = 1 / (i + 11)
                drift = (1 - share) * drift + share * (0.8 - chance)
                log_length = np.log(0.2) - np.sqrt(i + 1) / 0.05 * drift
                weight = (i + 1) ** -0.75
                average = weight * log_length + (1 - weight) * average
                length = float(np.exp(log_length if i < warmup - 1 else average))
            else:
                kept.append(np.asarray(positions))
                chances.append(chance)
            bar.update(accepted=chance, step=length)
    sampled = np.stack(kept, axis=1)
    sampled[:, :, :-1] *= np.exp(sampled[:, :, -1:])
    probability = np.asarray(nn.sigmoid(test_pixels @ sampled[:, :, :-1].reshape(-1, pixels.shape[1]).T)).mean(axis=1)
    accuracy = float(((probability > 0.5) == test_eight).mean())
    result = Result(sampled, split_ratio(sampled), float(np.mean(chances)), accuracy)
    if picture:
        draw(picture, result)
    return result


def draw(path: str, result: Result) -> None:
    """Mean and spread of the weights as images, and the traces of a parameter."""
    figure = Figure(figsize=(11, 3.2), dpi=120, layout="constrained")
    panels = figure.subplots(1, 3)
    weights = result.draws[:, :, 1:-1].reshape(-1, 8, 8)
    most = np.abs(weights.mean(0)).max()
    first = panels[0].imshow(weights.mean(0), cmap="RdBu", vmin=-most, vmax=most)
    panels[0].set_title("mean weight (blue: 8, red: 3)")
    second = panels[1].imshow(weights.std(0))
    panels[1].set_title("standard deviation")
    figure.colorbar(first, ax=panels[0])
    figure.colorbar(second, ax=panels[1])
    panels[2].plot(result.draws[:, :, -1].T, linewidth=0.7)
    panels[2].set(title="log width of the prior, by chain", xlabel="draw")
    figure.savefig(path)


def main() -> None:
    """Run at full size and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--picture", default=str(Path(__file__).with_suffix(".png")))
    options = parser.parse_args()
    result = run(options.draws, picture=options.picture)
    print(f"accepted {result.accepted:.0%}; largest convergence ratio {result.ratio.max():.3f}")
    print(f"accuracy on held-out images {result.accuracy:.1%}; picture in {options.picture}")


if __name__ == "__main__":
    main()
