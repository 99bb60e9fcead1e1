# SPDX-License-Identifier: Apache-2.0
"""Draws that two libraries are asked for: written in the names that both share, each under its name and its settings.

`tools/make_random_parity.py` runs them with JAX and keeps the numbers, `test_parity.py` runs them with purax and compares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CASES", "INITIALIZERS", "Case"]


class Case(NamedTuple):
    """`draw(random, vmap)` under the settings; `ulps` is how far the last bits may be off (0: no bit)."""

    draw: Callable[[Any, Any], Any]
    ulps: int = 0
    x64: bool = False
    partitionable: bool = True


CASES: dict[str, Case] = {}

SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (5,), (2, 3), (3, 0), (33,))
F32 = np.float32


def _bits() -> None:
    for partitionable in (True, False):
        for shape in SHAPES:
            for width in (8, 16, 32, 64):
                CASES[f"bits uint{width} {shape} {'new' if partitionable else 'old'}"] = Case(
                    lambda r, vmap, s=shape, w=width: r.bits(r.key(7), s, f"uint{w}"),
                    x64=width == 64,
                    partitionable=partitionable,
                )
        for number, num in enumerate((1, 3, (2, 3))):
            CASES[f"split {number} {'new' if partitionable else 'old'}"] = Case(
                lambda r, vmap, n=num: r.key_data(r.split(r.key(1), n)), partitionable=partitionable
            )
    for seed in (0, 42, -1, 2**31 - 1, -(2**31), 2**40 + 3):
        CASES[f"seed {seed}"] = Case(lambda r, vmap, s=seed: r.PRNGKey(s))
        CASES[f"seed {seed} x64"] = Case(lambda r, vmap, s=seed: r.PRNGKey(s), x64=True)
    for data in (0, 1, 2**31, 2**32 - 1):
        CASES[f"fold_in {data}"] = Case(lambda r, vmap, d=data: r.key_data(r.fold_in(r.key(5), d)))
    for impl in ("rbg", "unsafe_rbg"):
        for width in (8, 16, 32):
            CASES[f"bits {impl} {width}"] = Case(
                lambda r, vmap, i=impl, w=width: r.bits(r.key(9, impl=i), (2, 5), f"uint{w}")
            )
        CASES[f"split {impl}"] = Case(lambda r, vmap, i=impl: r.key_data(r.split(r.key(9, impl=i), (2, 3))))
        CASES[f"fold_in {impl}"] = Case(lambda r, vmap, i=impl: r.key_data(r.fold_in(r.key(9, impl=i), 11)))
        CASES[f"mapped {impl}"] = Case(
            lambda r, vmap, i=impl: vmap(lambda k: r.bits(k, (3,)))(r.split(r.key(2, impl=i), 4))
        )
    CASES["mapped bits"] = Case(lambda r, vmap: vmap(lambda k: r.bits(k, (3,), "uint16"))(r.split(r.key(2), 4)))
    CASES["mapped split"] = Case(lambda r, vmap: r.key_data(vmap(lambda k: r.split(k, 3))(r.split(r.key(2), 4))))
    CASES["mapped bits old"] = Case(
        lambda r, vmap: vmap(lambda k: r.bits(k, (3,), "uint16"))(r.split(r.key(2), 4)), partitionable=False
    )


def _uniform() -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x64 = dtype == "float64"
        for shape in SHAPES:
            CASES[f"uniform {dtype} {shape}"] = Case(
                lambda r, vmap, s=shape, d=dtype: r.uniform(r.key(3), s, d), x64=x64
            )
        CASES[f"uniform {dtype} between"] = Case(
            lambda r, vmap, d=dtype: r.uniform(r.key(3), (40,), d, minval=-3, maxval=5.5), x64=x64
        )
    CASES["uniform arrays"] = Case(
        lambda r, vmap: r.uniform(r.key(3), (2, 3), minval=F32([0, 1, 2]), maxval=F32([[4], [5]]))
    )
    CASES["uniform large"] = Case(lambda r, vmap: r.uniform(r.key(3), (300, 301))[::29, ::7])
    CASES["bernoulli"] = Case(lambda r, vmap: r.bernoulli(r.key(3), F32([0.1, 0.5, 0.9]), (40, 3)))
    CASES["bernoulli high"] = Case(lambda r, vmap: r.bernoulli(r.key(3), 0.3, (40,), mode="high"))
    CASES["rademacher"] = Case(lambda r, vmap: r.rademacher(r.key(3), (20,)))


def _integers() -> None:
    for dtype, low, high in (
        ("int32", 0, 10), ("int32", -100, 2**31 - 1), ("int32", 5, 5), ("uint8", 0, 100), ("uint8", 0, 256), ("int8", -128, 127),
        ("int16", -7, 300), ("uint32", 0, 1000), ("int64", 0, 2**40), ("uint64", 3, 17), ("int64", -(2**63), 2**63 - 1),
    ):  # fmt: skip
        CASES[f"randint {dtype} {low} {high}"] = Case(
            lambda r, vmap, d=dtype, a=low, b=high: r.randint(r.key(4), (20,), a, b, d), x64="64" in dtype
        )
    CASES["randint arrays"] = Case(
        lambda r, vmap: r.randint(r.key(4), (4, 3), np.int32([0, 10, 100]), np.int32([[5], [50], [500], [5000]]))
    )
    CASES["permutation number"] = Case(lambda r, vmap: r.permutation(r.key(4), 50))
    CASES["permutation rows"] = Case(
        lambda r, vmap: r.permutation(r.key(4), np.arange(20, dtype=np.int32).reshape(5, 4))
    )
    CASES["permutation apart"] = Case(
        lambda r, vmap: r.permutation(r.key(4), np.arange(20, dtype=np.int32).reshape(5, 4), axis=1, independent=True)
    )
    weights = F32([0.1, 0.2, 0.3, 0.4])
    CASES["choice"] = Case(lambda r, vmap: r.choice(r.key(4), 10, (3, 4)))
    CASES["choice distinct"] = Case(lambda r, vmap: r.choice(r.key(4), 10, (5,), replace=False))
    CASES["choice weights"] = Case(lambda r, vmap: r.choice(r.key(4), 4, (20,), p=weights))
    CASES["choice weights distinct"] = Case(lambda r, vmap: r.choice(r.key(4), 4, (3,), replace=False, p=weights))
    CASES["choice columns"] = Case(
        lambda r, vmap: r.choice(r.key(4), np.arange(12, dtype=np.int32).reshape(3, 4), (2,), axis=1)
    )
    logits = F32([[0.1, 0.5, -1.0], [2.0, -2.0, 0.3]])
    CASES["categorical"] = Case(lambda r, vmap: r.categorical(r.key(4), logits, shape=(20, 2)))
    CASES["categorical columns"] = Case(lambda r, vmap: r.categorical(r.key(4), logits, axis=0))
    CASES["categorical distinct"] = Case(lambda r, vmap: r.categorical(r.key(4), logits, shape=(2, 2), replace=False))
    CASES["geometric"] = Case(lambda r, vmap: r.geometric(r.key(4), F32([0.1, 0.5, 0.9]), (20, 3)))
    CASES["poisson"] = Case(lambda r, vmap: r.poisson(r.key(4), F32([0.0, 0.5, 5.0, 30.0, 1000.0]), (20, 5)))
    CASES["binomial"] = Case(lambda r, vmap: r.binomial(r.key(4), 40.0, F32([0.02, 0.3, 0.9, 1.0]), (20, 4)))
    CASES["multinomial"] = Case(lambda r, vmap: r.multinomial(r.key(4), 50.0, F32([0.2, 0.3, 0.5])))


def _continuous() -> None:
    simple = ("normal", "exponential", "laplace", "logistic", "cauchy", "gumbel", "maxwell")
    for name in simple:
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            CASES[f"{name} {dtype}"] = Case(
                lambda r, vmap, n=name, d=dtype: getattr(r, n)(r.key(6), (4, 5), d), ulps=8, x64=dtype == "float64"
            )
    CASES["normal complex64"] = Case(lambda r, vmap: r.normal(r.key(6), (10,), "complex64"), ulps=8)
    for mode in ("high", "highest"):
        CASES[f"gumbel {mode}"] = Case(lambda r, vmap, m=mode: r.gumbel(r.key(6), (20,), mode=m), ulps=8)
    two = F32([0.5, 2.0])
    draws: dict[str, Callable[[Any], Any]] = {
        "truncated_normal": lambda r: r.truncated_normal(r.key(6), -1.0, two, (20, 2)),
        "lognormal": lambda r: r.lognormal(r.key(6), two, (20, 2)),
        "double_sided_maxwell": lambda r: r.double_sided_maxwell(r.key(6), two, 2.0, (5,)),
        "wald": lambda r: r.wald(r.key(6), two, (20, 2)),
        "pareto": lambda r: r.pareto(r.key(6), two, (20, 2)),
        "rayleigh": lambda r: r.rayleigh(r.key(6), two, (20, 2)),
        "triangular": lambda r: r.triangular(r.key(6), 0.0, F32([0.2, 0.9]), 1.0, (20, 2)),
        "weibull_min": lambda r: r.weibull_min(r.key(6), two, 1.5, (20, 2)),
        "gamma": lambda r: r.gamma(r.key(6), F32([0.1, 1.0, 30.0]), (20, 3)),
        "loggamma": lambda r: r.loggamma(r.key(6), F32([0.001, 1.0, 30.0]), (20, 3)),
        "beta": lambda r: r.beta(r.key(6), two, 0.7, (20, 2)),
        "dirichlet": lambda r: r.dirichlet(r.key(6), F32([0.5, 1.0, 3.0]), (7,)),
        "chisquare": lambda r: r.chisquare(r.key(6), two, (20, 2)),
        "f": lambda r: r.f(r.key(6), two[None], 5.0, (20, 2)),
        "t": lambda r: r.t(r.key(6), two, (20, 2)),
        "generalized_normal": lambda r: r.generalized_normal(r.key(6), 1.5, (20,)),
        "ball": lambda r: r.ball(r.key(6), 3, shape=(7,)),
        "multivariate_normal": lambda r: r.multivariate_normal(r.key(6), two, F32([[2, 0.5], [0.5, 1]]), (7,)),
    }
    for name, draw in draws.items():
        CASES[name] = Case(lambda r, vmap, d=draw: d(r), ulps=64)
    CASES["mapped gamma"] = Case(
        lambda r, vmap: vmap(lambda k, a: r.gamma(k, a, (3,)))(r.split(r.key(6), 2), F32([0.3, 4.0])), ulps=64
    )


_bits()
_uniform()
_integers()
_continuous()

# Initial values: `draw(initializers, key)`.
INITIALIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda i, key: i.zeros(key, (2, 3)),
    "constant": lambda i, key: i.constant(0.3)(key, (2, 3)),
    "uniform": lambda i, key: i.uniform(0.2)(key, (2, 3)),
    "normal": lambda i, key: i.normal(0.2)(key, (2, 3)),
    "truncated_normal": lambda i, key: i.truncated_normal(0.2)(key, (2, 3)),
    "glorot_uniform": lambda i, key: i.glorot_uniform()(key, (3, 3, 2, 4)),
    "glorot_normal": lambda i, key: i.glorot_normal()(key, (5, 4)),
    "lecun_normal": lambda i, key: i.lecun_normal()(key, (5, 4)),
    "lecun_uniform": lambda i, key: i.lecun_uniform(in_axis=0, out_axis=1)(key, (5, 4)),
    "he_normal": lambda i, key: i.he_normal()(key, (5, 4)),
    "he_uniform": lambda i, key: i.he_uniform(batch_axis=0)(key, (3, 5, 4)),
    "complex": lambda i, key: i.glorot_normal(dtype="complex64")(key, (5, 4)),
    "complex disc": lambda i, key: i.glorot_uniform(dtype="complex64")(key, (5, 4)),
    "orthogonal": lambda i, key: i.orthogonal()(key, (3, 5)),
    "delta_orthogonal": lambda i, key: i.delta_orthogonal()(key, (3, 3, 4)),
}
