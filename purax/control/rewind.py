# SPDX-License-Identifier: Apache-2.0
"""Reverse mode through a loop of at most N steps, by recursive checkpointing.

The values of a step are what its derivative is taken at, and the derivatives are pulled back from the last step to the first.
Keeping the values of all steps takes memory for N of them. Here a run of `n` steps is cut into at most `b` blocks of equal
length. The run is repeated once, keeping the values at the start of each block; then the blocks are rewound, last one first,
each in the same way. A block of one step is rewound by the derivative of the body. With `L` levels, `b` is the least number
whose power `b**L` is no less than N.

Memory: `L * b` copies of the values, that is, O(N**(1/L)). Time: each step runs once going forward, at most `L` times more
between the kept values (less, for the last block of each level needs no run), and its derivative is taken once. Both count
the steps that are done, not N: a loop that ends early is rewound as quickly as it went. `L` is the least number with
`16**L >= N`, so the memory is that of at most `16 * L` copies and grows with the logarithm of N, as the time per step does.

References
----------
A. Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic differentiation",
Optimization Methods and Software 1 (1992).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax.control.program import build, cast_weak
from purax.control.program_call import LinearCall, jit_p
from purax.core.aval import array_aval
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Jaxpr, intern, open_constants
from purax.core.stage import stage
from purax.core.trace import aval_of
from purax.primitives import bits, comparison, elementwise, shape, slicing
from purax.primitives.base import is_linear, zeros_of
from purax.transforms.jvp import jvp_jaxpr
from purax.transforms.transpose import linearize_jaxpr, transpose_jaxpr

__all__ = ["COUNT", "Rewound", "counted", "pushed", "rewound_p"]

COUNT = array_aval((), np.dtype(np.int32))
_FAN = 16
_ONE = np.int32(1)


class Rewound(LinearCall):
    """The tangents after a bounded loop, linear in those before it; pulled back by rewinding the loop.

    Operands are the number of steps, constants and initial values of the loop, tangents of the constants that have one, and
    of the values that have one.

    Params
    ------
    jaxpr, name, inline
        As of `jit`: the loop over values and tangents.
    body : Jaxpr
        `(constants, values) -> values`.
    consts, carried : tuple of bool
        Which constants and which values have tangents.
    limit : int
        Bound on the number of steps.
    """

    dce: Any = None

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """As a plain call."""
        return jit_p.batch(axis, operands, dims, jaxpr=params["jaxpr"], name=params["name"], inline=params["inline"])

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """Rewind."""
        body, consts, carried = params["body"], params["consts"], params["carried"]
        count = 1 + len(consts) + len(carried)
        avals = [a for a, m in zip(body.out_avals, carried, strict=True) if m]
        given = [zeros_of(a) if c is None else c for c, a in zip(cotangents, avals, strict=True)]
        program, cells = _rewinding(body, consts, carried, params["limit"], aval_of(operands[0]))
        call = {"jaxpr": program, "name": params["name"], "inline": False}
        results = cells.through((program,), lambda held: jit_p.bind(*operands[:count], *given, *held, **call))
        found = [r if is_linear(x) else None for r, x in zip(results, operands[count:], strict=True)]
        return (*[None] * count, *found)


rewound_p = Rewound("rewound")


def pushed(body: Jaxpr, consts: tuple[bool, ...], carried: tuple[bool, ...], limit: int, steps: Any) -> Jaxpr:
    """The program of the operation above: the derivative of the body, `steps` times.

    Parameters
    ----------
    body : Jaxpr
    consts, carried : tuple of bool
        Which constants and values have tangents.
    limit : int
        Of the steps.
    steps : aval
        Of the counter.

    Returns
    -------
    Jaxpr
    """
    derived, _ = jvp_jaxpr(body, (*consts, *carried), carried)
    n_consts, n_values = len(consts), len(carried)

    def run(count: Any, *operands: Any) -> list[Any]:
        fixed, values = operands[:n_consts], operands[n_consts : n_consts + n_values]
        rest = operands[n_consts + n_values :]
        fixed_tangents, tangents = rest[: sum(consts)], rest[sum(consts) :]

        def step(_: Any, *state: Any) -> list[Any]:
            return eval_jaxpr(derived, (), *fixed, *state[:n_values], *fixed_tangents, *state[n_values:])

        return _repeat(count, limit, step, (*values, *tangents))[n_values:]

    primals = body.in_avals
    tangents = [a for a, m in zip(primals, (*consts, *carried), strict=True) if m]
    return build(run, [steps, *primals, *tangents], body.name)


def counted(
    condition: Jaxpr, body: Jaxpr, cond_nconsts: int, body_consts: int, limit: int | None = None
) -> tuple[Any, Jaxpr, Jaxpr]:
    """Type of a counter of steps, and the programs of a loop that carries one before its values (and heeds a limit).

    Parameters
    ----------
    condition, body : Jaxpr
    cond_nconsts, body_consts : int
        How many leading inputs are constants.
    limit : int, optional

    Returns
    -------
    (aval, Jaxpr, Jaxpr)
    """
    aval = COUNT.with_varying(condition.out_avals[0].varying)

    def go_on(*xs: Any) -> list[Any]:
        verdict = eval_jaxpr(condition, (), *xs[:cond_nconsts], *xs[cond_nconsts + 1 :])
        if limit is not None:
            verdict = [bits.bitwise_and(comparison.lt(xs[cond_nconsts], np.int32(limit)), verdict[0])]
        return verdict

    def step(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(body, (), *xs[:body_consts], *xs[body_consts + 1 :])
        return [elementwise.add(xs[body_consts], _ONE), *outs]

    def inserted(avals: Sequence[Any], place: int) -> list[Any]:
        return [*avals[:place], aval, *avals[place:]]

    return (
        aval,
        build(go_on, inserted(condition.in_avals, cond_nconsts), condition.name),
        build(step, inserted(body.in_avals, body_consts), body.name),
    )


def _rewinding(
    body: Jaxpr, consts: tuple[bool, ...], carried: tuple[bool, ...], limit: int, steps: Any
) -> tuple[Jaxpr, Any]:
    """The program `(steps, constants, values, cotangents) -> (cotangents of constants, cotangents of values)`.

    Last among inputs and outputs is what references hold, which come second (see `ref_scope.Cells`).
    """
    key = ("rewinding", consts, carried, limit, steps)
    found = body.derived.get(key)
    if found is None:
        _, _, cells = _derivative(body, consts, carried)
        cotangents = [*[a for a, m in zip(body.out_avals, carried, strict=True) if m], *cells.avals()]
        rewinder = _Rewinder(body, consts, carried, limit)
        program = build(rewinder, [steps, *body.in_avals, *cotangents], f"{body.name} rewound")
        found = body.derived[key] = program, cells
    return found


def _derivative(body: Jaxpr, consts: tuple[bool, ...], carried: tuple[bool, ...]) -> tuple[Any, Jaxpr, Any]:
    """The body split for reverse mode, its linear part transposed, and the references that this touches."""
    mask = (*consts, *carried)
    parts = linearize_jaxpr(body, mask, carried)
    linear = (*[False] * len(parts.residuals), *[True] * sum(mask))
    transposed, _, cells = transpose_jaxpr(
        parts.linear, linear, tuple([True] * sum(carried)), tuple([True] * sum(mask))
    )
    return parts, transposed, cells


class _Rewinder:
    """Pulls cotangents back through a loop; see the module's docstring."""

    def __init__(self, body: Jaxpr, consts: tuple[bool, ...], carried: tuple[bool, ...], limit: int) -> None:
        self.body, self.consts, self.carried, self.limit = body, consts, carried, limit
        levels = next(n for n in range(1, 33) if _FAN**n >= limit)
        self.fan = next(b for b in range(2, _FAN + 1) if b**levels >= limit)

    def __call__(self, steps: Any, *operands: Any) -> list[Any]:
        """All cotangents, those of the constants first."""
        n_consts, n_values = len(self.consts), len(self.carried)
        self.fixed, values = operands[:n_consts], operands[n_consts : n_consts + n_values]
        avals = [a for a, m in zip(self.body.in_avals, self.consts, strict=False) if m]
        cotangents = [*map(zeros_of, avals), *operands[n_consts + n_values :]]
        if self.limit == 1:  # one step or none; below, no block is empty
            return _repeat(steps, 1, lambda _, *now: self._step_back(values, now), cotangents)
        return self._rewind(self.limit, steps, values, cotangents)

    def _rewind(self, limit: int, steps: Any, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Pull back through the `steps` (at most `limit`) steps that follow `values`."""
        if limit == 1:
            return self._step_back(values, cotangents)
        inner = -(-limit // self.fan)
        # Blocks of equal length, the last one shorter; a loop of no steps has no blocks.
        length = elementwise.max(_ceil(steps, self.fan), _ONE)
        blocks = _ceil(steps, length)
        last = elementwise.sub(blocks, _ONE)
        kept = [shape.broadcast_batch(v, self.fan, 0) for v in values]

        def keep(i: Any, *state: Any) -> list[Any]:
            now, rows = state[: len(values)], state[len(values) :]
            written = [_write(r, v, i) for r, v in zip(rows, now, strict=True)]
            return [*self._advance(inner, length, now), *written]

        state = _repeat(last, self.fan - 1, keep, (*values, *kept))
        place = elementwise.max(last, np.int32(0))
        kept = [_write(r, v, place) for r, v in zip(state[len(values) :], state, strict=False)]

        def back(i: Any, *cotangents: Any) -> list[Any]:
            block = elementwise.sub(last, i)
            done = elementwise.mul(block, length)
            size = elementwise.min(length, elementwise.sub(steps, done))
            return self._rewind(inner, size, [_read(r, block) for r in kept], cotangents)

        return _repeat(blocks, self.fan, back, cotangents)

    def _advance(self, limit: int, steps: Any, values: Sequence[Any]) -> list[Any]:
        if limit == 1:
            return eval_jaxpr(self.body, (), *self.fixed, *values)
        return _repeat(steps, limit, lambda _, *now: eval_jaxpr(self.body, (), *self.fixed, *now), values)

    def _step_back(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The derivative of the body, transposed; what references hold follows the cotangents."""
        parts, transposed, _ = _derivative(self.body, self.consts, self.carried)
        inputs = (*self.fixed, *values)
        residuals = parts.pick(inputs, eval_jaxpr(parts.forward, (), *inputs))
        n = sum(self.consts)
        found = eval_jaxpr(transposed, (), *residuals, *cotangents[n:])
        sums = [elementwise.add_p.bind1(s, c) for s, c in zip(cotangents[:n], found[:n], strict=True)]
        return [*sums, *found[n:]]


def _repeat(count: Any, limit: int, step: Callable[..., Sequence[Any]], values: Sequence[Any]) -> list[Any]:
    """`values = step(i, *values)` for `i` from 0 to `count - 1`, at most `limit` times; reverse mode rewinds it, too."""
    index = aval_of(count)

    def body(i: Any, *now: Any) -> list[Any]:
        return [elementwise.add(i, _ONE), *cast_weak(step(i, *now), avals)]

    avals = [aval_of(v) for v in values]
    program, consts = open_constants(stage(body, [index, *avals], step.__name__, kind="rewind"))
    condition = build(lambda end, i, *_: [comparison.lt(i, end)], [index, index, *avals], step.__name__)
    outs = while_loop.while_p.bind(
        count, *consts, zeros_of(index), *values, cond_jaxpr=condition, body_jaxpr=intern(program), cond_nconsts=1,
        body_nconsts=len(consts), max_steps=limit,
    )  # fmt: skip
    return list(outs[1:])


def _ceil(x: Any, y: Any) -> Any:
    """`x / y`, rounded up; `x` is not negative, `y` is positive."""
    above = elementwise.add(x, elementwise.sub(y, _ONE))
    return elementwise.div(above, y)


def _read(rows: Any, index: Any) -> Any:
    return slicing.dynamic_index_in_dim(rows, index, 0, keepdims=False, allow_negative_indices=False)


def _write(rows: Any, value: Any, index: Any) -> Any:
    return slicing.dynamic_update_index_in_dim(rows, value, index, 0, allow_negative_indices=False)


from purax.control import while_loop  # noqa: E402  (a loop is rewound by loops)
