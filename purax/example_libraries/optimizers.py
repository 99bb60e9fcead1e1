# SPDX-License-Identifier: Apache-2.0
"""Optimizers as triples of functions.

`init(params)` gives a state, `update(step, gradient, state)` the next one, `get_params(state)` the parameters in it. Each optimizer
below is written for one array; `optimizer` makes it work on pytrees. New states and parameters have the shapes and dtypes of the old.

Parameters
----------
step_size : float or callable
    A number, or a function from the number of the step to it.
mass, momentum : float
    How much of the last direction is kept.
gamma, b1, b2 : float
    How much of running means is kept.
eps : float
    Added to what is divided by.
decay_steps, decay_rate : float
    After how many steps the step size has gone down once, and by what.
staircase : bool
    Go down in stairs.
final_step_size, power : float
    Step size at the end, and the exponent on the way to it.

Returns
-------
    An optimizer; a schedule, which takes the number of the step and returns a scalar; or a pytree with the shapes of the one given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from purax import numpy as pnp
from purax import tree

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay",
    "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state",
    "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state",
]  # fmt: skip

Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """The three functions."""

    init_fn: Callable[..., Any]
    update_fn: Callable[..., Any]
    params_fn: Callable[..., Any]


class OptimizerState(NamedTuple):
    """The states of all parameters.

    Attributes
    ----------
    packed_state : tuple
        Leaves of the state of each parameter.
    tree_def : PyTreeDef
        Structure of the parameters.
    subtree_defs : tuple of PyTreeDef
        Structure of the state of each.
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda data, children: OptimizerState(children[0], *data),
)


def _packed(states: Sequence[Any], structure: Any) -> OptimizerState:
    parts = [tree.flatten(state) for state in states]
    return OptimizerState(tuple([tuple(leaves) for leaves, _ in parts]), structure, tuple([d for _, d in parts]))


def _states(state: OptimizerState) -> list[Any]:
    return [d.unflatten(leaves) for d, leaves in zip(state.subtree_defs, state.packed_state, strict=True)]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Make a function that returns `(init, update, get_params)` for one array into one for pytrees of arrays.

    Raises
    ------
    TypeError
        (When updated) the gradient, or the new state of a parameter, has another structure.
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: Any) -> OptimizerState:
            leaves, structure = tree.flatten(params)
            return _packed([init(x) for x in leaves], structure)

        def tree_update(step: Any, gradient: Any, state: OptimizerState) -> OptimizerState:
            leaves, structure = tree.flatten(gradient)
            if structure != state.tree_def:
                raise TypeError(
                    f"optimizer update: the gradient has the structure {structure}, and the parameters {state.tree_def}"
                )
            new = _packed([update(step, g, s) for g, s in zip(leaves, _states(state), strict=True)], structure)
            for now, before in zip(new.subtree_defs, state.subtree_defs, strict=True):
                if now != before:
                    raise TypeError(
                        f"optimizer update: the state of a parameter went in as {before} and came out as {now}; keep its structure"
                    )
            return new

        def tree_params(state: OptimizerState) -> Any:
            return state.tree_def.unflatten([get_params(s) for s in _states(state)])

        return Optimizer(tree_init, tree_update, tree_params)

    return make


# --- optimizers: x is the parameter, g its gradient, a(i) the step size of step i ----------------------------------------------


@optimizer
def sgd(step_size: Any) -> Any:
    """`x -= a g`."""
    a = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - a(i) * g), (lambda x: x)


@optimizer
def momentum(step_size: Any, mass: Any) -> Any:
    """`v = mass v + g; x -= a v`."""
    a = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - a(i) * v, v

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: Any, mass: Any) -> Any:
    """`v = mass v + g; x -= a (mass v + g)`: the step of momentum, looked ahead."""
    a = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - a(i) * (mass * v + g), v

    return _with_zeros(1), update, _first


@optimizer
def adagrad(step_size: Any, momentum: Any = 0.9) -> Any:
    """`s += g^2; m = (1 - momentum) g / sqrt(s) + momentum m; x -= a m` (Duchi et al., 2011)."""
    a = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, s, m = state
        s = s + pnp.square(g)
        m = (1 - momentum) * _over_root(g, s) + momentum * m
        return x - a(i) * m, s, m

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Any:
    """`s = gamma s + (1 - gamma) g^2; x -= a g / sqrt(s + eps)`."""
    a = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, s = state
        s = gamma * s + (1 - gamma) * pnp.square(g)
        return x - a(i) * g / pnp.sqrt(s + eps), s

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9) -> Any:
    """`s = gamma s + (1 - gamma) g^2; m = momentum m + a g / sqrt(s + eps); x -= m`."""
    a = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, s, m = state
        s = gamma * s + (1 - gamma) * pnp.square(g)
        m = momentum * m + a(i) * g / pnp.sqrt(s + eps)
        return x - m, s, m

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """`m, v` are running means of `g, g^2`; `x -= a m' / (sqrt(v') + eps)` with their biases taken out (Kingma and Ba, 2014)."""
    a = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * pnp.square(g) + b2 * v
        m_hat = m / (1 - pnp.asarray(b1, m.dtype) ** (i + 1))
        v_hat = v / (1 - pnp.asarray(b2, m.dtype) ** (i + 1))
        return x - a(i) * m_hat / (pnp.sqrt(v_hat) + eps), m, v

    return _with_zeros(2), update, _first


@optimizer
def adamax(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """`m` is the running mean of `g`, `u` a decaying maximum of `|g|`; `x -= a / (1 - b1^(i+1)) m / (u + eps)`."""
    a = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = pnp.maximum(b2 * u, pnp.abs(g))
        return x - a(i) / (1 - pnp.asarray(b1, m.dtype) ** (i + 1)) * m / (u + eps), m, u

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: Any, momentum: Any = 0.9) -> Any:
    """Adagrad with one accumulator per slice of each axis in place of one per element (Anil et al., 2019)."""
    a = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, pnp.zeros_like(x), [pnp.zeros(size, x.dtype) for size in x.shape] or [pnp.zeros((), x.dtype)]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, parts = state
        wide = [part.reshape([-1 if d == axis else 1 for d in range(x.ndim)]) for axis, part in enumerate(parts)]
        s = functools.reduce(pnp.minimum, wide) + pnp.square(g)
        m = (1 - momentum) * _over_root(g, s) + momentum * m
        parts = [s.max([d for d in range(x.ndim) if d != axis]) if x.ndim > 1 else s for axis in range(len(parts))]
        return x - a(i) * m, m, parts

    return init, update, _first


def _with_zeros(count: int) -> Callable[[Any], Any]:
    return lambda x: (x, *[pnp.zeros_like(x) for _ in range(count)])


def _first(state: Any) -> Any:
    return state[0]


def _over_root(g: Any, s: Any) -> Any:
    """`g / sqrt(s)`, 0 where nothing was summed yet."""
    seen = s > 0
    return pnp.where(seen, g / pnp.sqrt(pnp.where(seen, s, 1)), 0)


# --- step sizes ---------------------------------------------------------------------------------------------------------------


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A function from the number of the step to the step size.

    Raises
    ------
    TypeError
        The step size is neither a scalar nor a function.
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if pnp.ndim(scalar_or_schedule):
        raise TypeError(f"a step size is a scalar or a function of the step, not {scalar_or_schedule!r}")
    return constant(scalar_or_schedule)


def constant(step_size: Any) -> Schedule:
    """The same step size always."""
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """`step_size * decay_rate ** (i / decay_steps)`."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """`step_size / (1 + decay_rate * i / decay_steps)`; with `staircase` the quotient is rounded down."""

    def schedule(i: Any) -> Any:
        turns = pnp.floor(i / decay_steps) if staircase else i / decay_steps
        return step_size / (1 + decay_rate * turns)

    return schedule


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    """From `step_size` to `final_step_size` in `decay_steps` steps, by a power of the part that is left."""

    def schedule(i: Any) -> Any:
        left = 1 - pnp.minimum(i, decay_steps) / decay_steps
        return (step_size - final_step_size) * left**power + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """`values[k]` while `k` boundaries lie below the step.

    Raises
    ------
    ValueError
        There must be one value more than boundaries.
    """
    boundaries, values = pnp.asarray(boundaries), pnp.asarray(values)
    if boundaries.ndim != 1 or values.shape != (boundaries.shape[0] + 1,):
        raise ValueError(
            f"piecewise_constant takes one value more than boundaries, got {values.shape} and {boundaries.shape}"
        )
    return lambda i: values[pnp.sum(i > boundaries)]


# --- gradients and states -----------------------------------------------------------------------------------------------------


def l2_norm(values: Any) -> Any:
    """Square root of the sum of the squares of all elements of a pytree."""
    return pnp.sqrt(sum(pnp.vdot(x, x) for x in tree.leaves(values)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The gradients, scaled so that their norm is at most `max_norm`."""
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: pnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """Marks, in an unpacked state, where the state of one parameter begins."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as a pytree like the parameters, with a JoinPoint for each of them: to be saved."""
    return opt_state.tree_def.unflatten([JoinPoint(state) for state in _states(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """Inverse of `unpack_optimizer_state`.

    Raises
    ------
    TypeError
        A leaf is no JoinPoint.
    """
    points, structure = tree.flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise TypeError("pack_optimizer_state takes what unpack_optimizer_state gave: a JoinPoint for each parameter")
    return _packed([point.subtree for point in points], structure)
