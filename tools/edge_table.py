# SPDX-License-Identifier: Apache-2.0
"""Writes docs/edge_derivatives.md: values and derivatives at the points where a formula alone does not say what they are.

    python tools/edge_table.py           # compares the file with what the code gives
    python tools/edge_table.py --write   # rewrites it

Each row is computed in float32: the value, the derivative in reverse mode and in forward mode. The tool takes them from one compiled
program, which needs some seconds; the test takes them from the NumPy references of the same equations, and compiles nothing.
"""

import argparse
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import purax
from purax import lax, nn, tree
from purax import numpy as pnp
from purax.core.interpret import reference_eval
from purax.scipy.linalg import expm

TABLE = Path(__file__).resolve().parent.parent / "docs" / "edge_derivatives.md"
INF, NAN = np.inf, np.nan


class Row(NamedTuple):
    """One function at one point, differentiated by `argument`."""

    text: str
    function: Callable[..., Any]
    point: tuple[Any, ...]
    argument: int = 0


def row(text: str, function: Callable[..., Any], *point: Any, by: int = 0) -> Row:
    """A row whose points are float32 or complex64 arrays."""
    kinds = [np.complex64 if np.iscomplexobj(x) else np.float32 for x in point]
    return Row(text, function, tuple(np.asarray(x, k) for x, k in zip(point, kinds, strict=True)), by)


def masked(x: Any) -> Any:
    """Which elements are not NaN."""
    return ~pnp.isnan(x)


SECTIONS: dict[str, tuple[str, list[Row]]] = {
    "Corners": (
        "A corner has one slope, the same in both modes; ties share it in equal parts.",
        [
            row("abs(x)", pnp.abs, 0.0),
            row("abs(x)", pnp.abs, -0.0),
            row("abs(z)", pnp.abs, 0j),
            row("sign(x)", pnp.sign, 0.0),
            row("maximum(x, 0)", lambda x: pnp.maximum(x, 0), 0.0),
            row("minimum(x, 0)", lambda x: pnp.minimum(x, 0), 0.0),
            row("maximum(x, 0)", lambda x: pnp.maximum(x, 0), NAN),
            row("clip(x, 0, 1)", lambda x: pnp.clip(x, 0, 1), 0.0),
            row("clip(x, 0, 1)", lambda x: pnp.clip(x, 0, 1), 1.0),
            row("lax.clamp(0, x, 1)", lambda x: lax.clamp(0.0, x, 1.0), 1.0),
            row("relu(x)", nn.relu, 0.0),
            row("relu6(x)", nn.relu6, 6.0),
            row("leaky_relu(x)", nn.leaky_relu, 0.0),
            row("elu(x)", nn.elu, 0.0),
            row("hard_tanh(x)", nn.hard_tanh, 1.0),
            row("max(x)", pnp.max, [1, 1, 0]),
            row("min(x)", pnp.min, [0, 1, 0]),
            row("median(x)", pnp.median, [1, 1, 1, 0]),
            row("sort(x)[0]", lambda x: pnp.sort(x)[0], [1, 1, 2]),
            row("cummax(x)[-1]", lambda x: lax.cummax(x)[-1], [1, 1, 0]),
        ],
    ),
    "Steps": (
        "A step has the slope of its flat parts; a saw tooth that of its rise.",
        [
            row("floor(x)", pnp.floor, 1.0),
            row("round(x)", pnp.round, 0.5),
            row("mod(x, 1)", lambda x: pnp.mod(x, 1), 1.0),
            row("mod(5, y)", lambda y: pnp.mod(5.0, y), 2.0),
            row("nextafter(x, 2)", lambda x: pnp.nextafter(x, 2.0), 1.0),
        ],
    ),
    "Norms and roots": (
        "A norm at zero has the derivative zero, the middle of its subgradients; so has a standard deviation without spread. A "
        "root that is written out has the slope of the root.",
        [
            row("norm(x)", pnp.linalg.norm, [0, 0]),
            row("norm(x)^2", lambda x: pnp.linalg.norm(x) ** 2, [0, 0]),
            row("norm(x, ord=1)", lambda x: pnp.linalg.norm(x, ord=1), [0, 0]),
            row("norm(x, ord=3)", lambda x: pnp.linalg.norm(x, ord=3), [0, 0]),
            row("norm(x, ord=inf)", lambda x: pnp.linalg.norm(x, ord=INF), [1, 1]),
            row("std(x)", pnp.std, [1, 1]),
            row("var(x)", pnp.var, [1, 1]),
            row("sqrt(x)", pnp.sqrt, 0.0),
            row("cbrt(x)", pnp.cbrt, 0.0),
            row("hypot(x, y) by x", pnp.hypot, 0.0, 0.0),
            row("sqrt(sum(x^2))", lambda x: pnp.sqrt(pnp.sum(x**2)), [0, 0]),
        ],
    ),
    "Powers": (
        "The slope is that of the polynomial, also at zero.",
        [
            row("x^y by x", pnp.power, 0.0, 0.0),
            row("x^y by x", pnp.power, 0.0, 1.0),
            row("x^y by x", pnp.power, 0.0, 2.0),
            row("x^y by x", pnp.power, 0.0, 0.5),
            row("x^y by y", pnp.power, 0.0, 0.0, by=1),
            row("x^y by y", pnp.power, 0.0, 2.0, by=1),
            row("x^y by y", pnp.power, -2.0, 2.0, by=1),
            row("prod(x)", pnp.prod, [0, 2, 3]),
            row("prod(x)", pnp.prod, [0, 0, 3]),
            row("cumprod(x)[-1]", lambda x: pnp.cumprod(x)[-1], [0, 2, 3]),
        ],
    ),
    "Poles and ends of domains": (
        "What is infinite stays infinite.",
        [
            row("1/x", lambda x: 1 / x, 0.0),
            row("log(x)", pnp.log, 0.0),
            row("log1p(x)", pnp.log1p, -1.0),
            row("x log(x)", lambda x: x * pnp.log(x), 0.0),
            row("arcsin(x)", pnp.arcsin, 1.0),
            row("arccosh(x)", pnp.arccosh, 1.0),
            row("arctanh(x)", pnp.arctanh, 1.0),
            row("arctan2(y, x) by y", pnp.arctan2, 0.0, 0.0),
            row("sinc(x)", pnp.sinc, 0.0),
            row("d2/dx2 sinc(x)", lambda x: purax.grad(purax.grad(pnp.sinc))(x), 0.0),
        ],
    ),
    "Exponentials": (
        "Where a sum of exponentials has no element, there is no direction to go.",
        [
            row("logsumexp(x)", nn.logsumexp, [-INF, -INF]),
            row("logsumexp(x)", nn.logsumexp, [-INF, 0]),
            row("logsumexp(x)", nn.logsumexp, [INF, 0]),
            row("logsumexp(x, where=False)", lambda x: nn.logsumexp(x, where=np.array([False, False])), [1, 2]),
            row("logaddexp(x, y) by x", pnp.logaddexp, -INF, -INF),
            row("logaddexp(x, y) by x", pnp.logaddexp, INF, INF),
            row("logaddexp(x, y) by y", pnp.logaddexp, 0.0, -INF, by=1),
            row("softmax(x)[0]", lambda x: nn.softmax(x)[0], [-INF, -INF]),
            row("softmax(x)[0]", lambda x: nn.softmax(x)[0], [-INF, 0]),
            row("sum(softmax(x, where=False))", lambda x: nn.softmax(x, where=np.array([False, False])).sum(), [1, 2]),
            row("sigmoid(x)", nn.sigmoid, 1000.0),
            row("softplus(x)", nn.softplus, 1000.0),
            row("log_sigmoid(x)", nn.log_sigmoid, -1000.0),
            row("expm1(x)/x, chosen at 0", lambda x: pnp.where(x == 0, 1.0, pnp.expm1(x) / x), 0.0),
        ],
    ),
    "What was not selected": (
        "A value that `where`, `clip`, an extremum, a mask or an index passes over leaves the derivative alone, whatever it is.",
        [
            row("where(x < 1, x, sqrt(x))", lambda x: pnp.where(x < 1, x, pnp.sqrt(x)), 0.0),
            row("where(x > 0, log(x), 0)", lambda x: pnp.where(x > 0, pnp.log(x), 0), -1.0),
            row("where(x != 0, sin(x)/x, 1)", lambda x: pnp.where(x != 0, pnp.sin(x) / x, 1), 0.0),
            row("clip(log(x), -5, 5)", lambda x: pnp.clip(pnp.log(x), -5, 5), 0.0),
            row("maximum(log(x), -5)", lambda x: pnp.maximum(pnp.log(x), -5), 0.0),
            row("max(log(x))", lambda x: pnp.max(pnp.log(x)), [0, 2]),
            row("log(x)[1]", lambda x: pnp.log(x)[1], [0, 2]),
            row("nanmean(x^2)", lambda x: pnp.nanmean(x**2), [NAN, 1, 2]),
            row("nanmax(x)", pnp.nanmax, [NAN, 1, 2]),
            row("mean(x^2, where=masked)", lambda x: pnp.mean(x**2, where=masked(x)), [NAN, 1, 2]),
            row("sum(log(x), where=x > 0)", lambda x: pnp.sum(pnp.log(x), where=x > 0), [0, 2]),
            row("where(x < 1, sqrt(x), 1)", lambda x: pnp.where(x < 1, pnp.sqrt(x), 1), 0.0),
        ],
    ),
    "Complex arguments": (
        "The gradient of a real function is du/dx - i du/dy: a step against its conjugate goes down.",
        [
            row("abs(z)", pnp.abs, 1 + 0.5j),
            row("real(z)", pnp.real, 1 + 0.5j),
            row("imag(z)", pnp.imag, 1 + 0.5j),
            row("angle(z)", pnp.angle, 1 + 0.5j),
            row("real(z conj(z))", lambda z: pnp.real(z * pnp.conj(z)), 1 + 0.5j),
            row("norm([z])", lambda z: pnp.linalg.norm(z[None]), 0j),
        ],
    ),
    "Matrices": (
        "Vectors of equal eigenvalues or singular values may turn freely within their space. The share of a derivative that turns them "
        "is taken as 0. This is right for functions that do not see such turns: of the values (equal ones treated alike), of spaces "
        "(projections, U V^T), and of a matrix where rotations change nothing (its norm, the trace of f(A)). It is wrong for other "
        "functions of a matrix that are written out, V f(w) V^T: they miss f'(w) beside the diagonal. No rule of `eigh` or `svd` can "
        "supply it, as at equal values V f(w) V^T is the same for every turn of V, so f' reaches only the derivative of the values; "
        "and NaN in its place would take the right derivatives along. `expm`, `sqrtm`, `inv`, `pinv`, `lstsq` and `polar` have "
        "derivatives of their own, which are right everywhere.",
        [
            row("det(A)", pnp.linalg.det, [[1, 1], [1, 1]]),
            row("sum(eigvalsh(A))", lambda a: pnp.linalg.eigvalsh(a).sum(), [[1, 0], [0, 1]]),
            row("sum(singular values of A)", lambda a: pnp.linalg.svdvals(a).sum(), [[1, 0], [0, 1]]),
            row("norm(U S V^T)", lambda a: pnp.linalg.norm(rebuilt(a)), [[1, 0], [0, 1]]),
            row("sum(U V^T)", lambda a: rebuilt(a, pnp.ones_like).sum(), [[1, 0], [0, 1]]),
            row("sum(V V^T), vectors of the lower two", lambda a: below(a).sum(), [[1, 0, 0], [0, 1, 0], [0, 0, 2]]),
            row("trace(V exp(w) V^T)", lambda a: pnp.trace(spectral(a)), [[1, 0], [0, 1]]),
            row("sum(V exp(w) V^T), wrong", lambda a: spectral(a).sum(), [[1, 0], [0, 1]]),
            row("sum(U S V^T), wrong", lambda a: rebuilt(a).sum(), [[1, 0], [0, 1]]),
            row("sum(expm(A))", lambda a: expm(a).sum(), [[1, 0], [0, 1]]),
        ],
    ),
}


def rebuilt(a: Any, change: Any = lambda s: s) -> Any:
    """A matrix from its singular values, which may be equal; changed ones at will."""
    u, s, vt = pnp.linalg.svd(a)
    return (u * change(s)) @ vt


def spectral(a: Any) -> Any:
    """The exponential of a symmetric matrix, written out."""
    w, v = pnp.linalg.eigh(a)
    return (v * pnp.exp(w)) @ v.T


def below(a: Any) -> Any:
    """The projection onto the vectors of the two smallest eigenvalues."""
    v = pnp.linalg.eigh(a)[1][:, :2]
    return v @ v.T


def along(function: Callable[..., Any], point: tuple[Any, ...], argument: int) -> Any:
    """Forward mode: the derivative along each element, of the shape of the argument; 1 and i for complex arguments."""
    x = point[argument]

    def push(direction: Any) -> Any:
        of_one = lambda v: function(*point[:argument], v, *point[argument + 1 :])
        return purax.jvp(of_one, (x,), (direction,))[1]

    basis = np.eye(x.size, dtype=np.float32).reshape(x.size, *x.shape)
    if np.dtype(x.dtype).kind == "c":
        return push(np.ones((), x.dtype)) - 1j * push(np.full((), 1j, x.dtype))
    return pnp.stack([push(direction) for direction in basis]).reshape(x.shape)


def compute(rows: list[Row], compiled: bool) -> list[tuple[Any, Any, Any]]:
    """Value, derivative in reverse mode and in forward mode of each row."""

    @purax.jit
    def everything(points: list[tuple[Any, ...]]) -> Any:
        return [
            (*purax.value_and_grad(r.function, r.argument)(*point), along(r.function, point, r.argument))
            for r, point in zip(rows, points, strict=True)
        ]

    points = [r.point for r in rows]
    if compiled:
        return everything(points)  # type: ignore[no-any-return]
    program = everything.trace(points).jaxpr
    with np.errstate(all="ignore"):
        outs = reference_eval(program.jaxpr, program.consts, *tree.leaves(points))
    return list(zip(outs[::3], outs[1::3], outs[2::3], strict=True))


def shown(value: Any) -> str:
    """Digits that do not depend on the last bits; arrays in NumPy's brackets; -0 as 0."""
    value = np.asarray(value)
    if value.ndim:
        return "[" + ", ".join(map(shown, value)) + "]"
    if np.iscomplexobj(value):
        return f"{shown(value.real)}{'-' if value.imag < 0 else '+'}{shown(abs(value.imag))}i"
    rounded = float(f"{float(value):.4g}")
    return f"{0.0 if abs(rounded) < 1e-6 else rounded:g}"


def table(compiled: bool) -> str:
    """The text of docs/edge_derivatives.md."""
    rows = [r for _, group in SECTIONS.values() for r in group]
    results = iter(compute(rows, compiled))
    lines = [
        "# Derivatives at edge points",
        "",
        "What purax answers where the formula divides by zero, ties, or jumps. Written by `python tools/edge_table.py --write`, checked",
        "by `tests/docs/test_edge_table.py`. Forward mode agrees with reverse mode, except where a second number says otherwise.",
    ]
    for title, (sentence, group) in SECTIONS.items():
        lines += ["", f"## {title}", ""]
        lines += [textwrap.fill(sentence, 130), ""]
        lines += ["| function | at | value | derivative |", "|---|---|---|---|"]
        for r in group:
            value, reverse, forward = map(shown, next(results))
            point = ", ".join(map(shown, r.point))
            derivative = reverse if reverse == forward else f"{reverse}; forward {forward}"
            lines.append(f"| `{r.text}` | {point} | {value} | {derivative} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Compare or write; returns 1 if the file differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the file")
    options = parser.parse_args()
    text = table(compiled=True)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
        return 0
    if TABLE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TABLE.name} differs from what the code gives: python tools/edge_table.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
