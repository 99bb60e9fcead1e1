# SPDX-License-Identifier: Apache-2.0
"""vmap and scan of functions of scopes.

A function of scopes is `fn(scopes, *args)` with a list of scopes. Each transformation here packs the scopes, transforms a
function of arrays, and publishes what changed. `linen.lift` makes the same transformations for modules, and tells their arguments.

What is returned is a callable `(scopes, *args)`.

Parameters
----------
fn : callable
    A function of scopes.
variable_axes, variable_broadcast, variable_carry, split_rngs, in_axes, out_axes, axis_size, axis_name, \
spmd_axis_name, metadata_params, length, reverse, unroll, data_transform, check_constancy_invariants, lengths, \
policy
    As in `purax.linen.vmap`, `purax.linen.scan` and `purax.linen.remat_scan`.
_split_transpose : bool
    Without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from purax import numpy as pnp
from purax import random, tree
from purax.control import loop
from purax.linen import errors, meta
from purax.linen._support import ShapeDtypeStruct, eval_shape
from purax.linen.filters import Filter, intersect
from purax.linen.lifting.control import checkpoint
from purax.linen.lifting.pack import Packed
from purax.transforms.vmap import vmap as vmap_arrays

__all__ = ["In", "Out", "broadcast", "remat_scan", "scan", "vmap"]


class _Broadcast:
    """The axis of an argument that every step of a scan sees whole."""

    def __repr__(self) -> str:
        return "broadcast"


broadcast = _Broadcast()


@dataclass(frozen=True)
class In:
    """The axis of a collection that goes into a transformation and does not come out."""

    axis: Any


@dataclass(frozen=True)
class Out:
    """The axis of a collection that comes out of a transformation and does not go in."""

    axis: Any


def _sides(axes: Mapping[Filter, Any]) -> tuple[dict[Filter, Any], dict[Filter, Any]]:
    """Return the axes of what goes in and of what comes out."""
    inputs = {name: ax.axis if isinstance(ax, In) else ax for name, ax in axes.items() if not isinstance(ax, Out)}
    outputs = {name: ax.axis if isinstance(ax, Out) else ax for name, ax in axes.items() if not isinstance(ax, In)}
    return inputs, outputs


def _split(rngs: Any, splits: Sequence[bool], count: int) -> Any:
    """Split the keys of the groups that want a key for each step or lane."""
    return tuple(
        tree.map(lambda key: random.split(key, count), members) if split else members
        for members, split in zip(rngs, splits, strict=True)
    )


def _sizes(axes: Any, values: Any, skip: Callable[[Any], bool]) -> set[int]:
    """Return the sizes of the mapped axes; `axes` is a prefix of `values`."""
    found: set[int] = set()

    def visit(axis: Any, subtree: Any) -> None:
        if not skip(axis):
            found.update(leaf.shape[axis] for leaf in tree.leaves(subtree)[:1])

    tree.map(visit, axes, values, is_leaf=lambda axis: axis is None)
    return found


def _one_size(sizes: set[int], given: int | None, transform: str, option: str) -> int:
    if len(sizes) > 1:
        raise ValueError(f"{transform}: the mapped axes have sizes {sorted(sizes)}; they must be equal.")
    if given is not None:
        return given
    if not sizes:
        raise ValueError(f"{transform}: no argument has a mapped axis; give {option}.")
    return sizes.pop()


def _no_keywords(kwargs: Any, transform: str) -> None:
    if kwargs:
        raise TypeError(f"{transform} takes positional arguments only, since each needs an axis; got {sorted(kwargs)}.")


def _each_box(change: Callable[..., Any], groups: Any, axes: Sequence[Any], params: Mapping[Any, Any]) -> Any:
    return tuple(
        members if axis is None else change(members, axis, params) for members, axis in zip(groups, axes, strict=True)
    )


def vmap(
    fn: Callable[..., Any],
    variable_axes: Mapping[Filter, Any] = {},
    split_rngs: Mapping[Filter, bool] = {},
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    spmd_axis_name: str | None = None,
    metadata_params: Mapping[Any, Any] = {},
) -> Callable[..., Any]:
    """Map a function of scopes over an axis of its arguments, variables and keys."""
    inputs, outputs = _sides(variable_axes)
    splits = tuple(split_rngs.values())
    in_variables, out_variables = tuple(inputs.values()), tuple(outputs.values())

    def call(scopes: Any, *args: Any, **kwargs: Any) -> Any:
        _no_keywords(kwargs, "vmap")
        packed = Packed(scopes, tuple(inputs), tuple(outputs), tuple(split_rngs))
        variables = _each_box(meta.remove_axis, packed.variables, in_variables, metadata_params)
        sizes = _sizes((in_variables, in_axes), (variables, args), lambda axis: axis is None)
        size = _one_size(sizes, axis_size, "vmap", "axis_size=")

        def lane(variables: Any, rngs: Any, args: Any) -> Any:
            result = fn(packed.enter(variables, rngs), *args)
            return result, packed.leave()

        mapped = vmap_arrays(
            lane,
            in_axes=(in_variables, tuple(0 if split else None for split in splits), in_axes),
            out_axes=(out_axes, out_variables),
            axis_name=axis_name,
            axis_size=size,
            spmd_axis_name=spmd_axis_name,
        )
        result, changed = mapped(variables, _split(packed.rngs, splits, size), args)
        packed.publish(_each_box(meta.add_axis, changed, out_variables, metadata_params))
        return result

    return call


def _to_front(axis: Any, values: Any) -> Any:
    if axis is broadcast:
        return ()
    return values if axis == 0 else tree.map(lambda leaf: pnp.moveaxis(leaf, axis, 0), values)


def _from_front(axis: Any, values: Any) -> Any:
    if axis is broadcast:
        return ()
    return values if axis == 0 else tree.map(lambda leaf: pnp.moveaxis(leaf, 0, axis), values)


def scan(
    fn: Callable[..., Any],
    variable_axes: Mapping[Filter, Any] = {},
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    split_rngs: Mapping[Filter, bool] = {},
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    _split_transpose: bool = False,
    data_transform: Callable[..., Any] | None = None,
    metadata_params: Mapping[Any, Any] = {},
    check_constancy_invariants: bool = True,
) -> Callable[..., Any]:
    """Loop a function of scopes, `fn(scopes, carry, *xs) -> (carry, ys)`.

    Raises
    ------
    ValueError
        `out_axes=broadcast` without `check_constancy_invariants`.
    """
    inputs, outputs = _sides(variable_axes)
    splits = tuple(split_rngs.values())
    in_variables, out_variables = tuple(inputs.values()), tuple(outputs.values())
    has_constant_results = any(axis is broadcast for axis in tree.leaves(out_axes))
    if has_constant_results and not check_constancy_invariants:
        raise ValueError("scan: out_axes=broadcast needs check_constancy_invariants.")

    def call(scopes: Any, carry: Any, *args: Any, **kwargs: Any) -> Any:
        _no_keywords(kwargs, "scan")
        packed = Packed(
            scopes,
            (variable_broadcast, variable_carry, *inputs),
            (variable_broadcast, variable_carry, *outputs),
            tuple(split_rngs),
        )
        shared, carried, *stacked = packed.variables
        sizes = _sizes(in_axes, args, lambda axis: axis is broadcast)
        size = _one_size(sizes, length, "scan", "length=")
        rngs = _split(packed.rngs, splits, size)
        whole_rngs = tuple(() if split else members for members, split in zip(rngs, splits, strict=True))
        xs = (
            tuple(
                _to_front(axis, meta.remove_axis(members, axis, metadata_params))
                for members, axis in zip(stacked, in_variables, strict=True)
            ),
            tuple(members if split else () for members, split in zip(rngs, splits, strict=True)),
            tree.map(_to_front, in_axes, args),
        )

        def step(shared: Any, state: Any, xs: Any) -> Any:
            carried, carry = state
            stacked, keys, moved = xs
            groups = (shared, carried, *stacked)
            keys = tuple(key if split else whole for key, whole, split in zip(keys, whole_rngs, splits, strict=True))
            if data_transform is not None:
                groups, keys = data_transform(groups, keys)
            arguments = tree.map(lambda axis, arg, x: arg if axis is broadcast else x, in_axes, args, moved)
            carry, ys = fn(packed.enter(groups, keys), carry, *arguments)
            shared_out, carried, *stacked_out = packed.leave()
            return shared_out, (carried, carry), (ys, tuple(stacked_out))

        state = (carried, carry)
        constants: Any = None
        if check_constancy_invariants:
            shared_out, constants = _invariants(
                step, shared, state, xs, out_axes, has_constant_results, packed, variable_broadcast
            )
            shared = tuple({**given, **made} for given, made in zip(shared, shared_out, strict=True))
        drawn = dict(packed.counters)

        def body(state: Any, xs: Any) -> Any:
            packed.counters.clear()  # the loop may trace its body more than once; each trace draws the same keys
            packed.counters.update(drawn)
            _, state, (ys, stacked) = step(shared, state, xs)
            return state, (tree.map(lambda axis, y: () if axis is broadcast else y, out_axes, ys), stacked)

        (carried, carry), (ys, stacked) = loop.scan(
            body, state, xs, length=size, reverse=reverse, unroll=unroll, _split_transpose=_split_transpose
        )
        ys = tree.map(_from_front, out_axes, ys)
        if has_constant_results:
            ys = tree.map(lambda axis, constant, y: constant if axis is broadcast else y, out_axes, constants, ys)
        moved = tuple(
            meta.add_axis(_from_front(axis, members), axis, metadata_params)
            for members, axis in zip(stacked, out_variables, strict=True)
        )
        packed.publish((shared, carried, *moved))
        return carry, ys

    return call


def _invariants(
    step: Callable[..., Any],
    shared: Any,
    state: Any,
    xs: Any,
    out_axes: Any,
    has_constant_results: bool,
    packed: Packed,
    variable_broadcast: Filter,
) -> tuple[Any, Any]:
    """Run one step outside the loop for what is the same in each step: shared variables that it makes, constant results.

    The step runs mapped over an axis of size one that carry, inputs and split keys have. A shared value that comes out
    mapped depends on them, which is an error. When nothing shared can change, shapes alone are traced, and only if keys are
    drawn: this pass then advances their counters, as it does otherwise.
    """
    nothing: tuple[Any, ...] = tuple({} for _ in packed.roots)
    writable = any(intersect(root.mutable, variable_broadcast) is not False for root in packed.roots)
    if not (writable or has_constant_results):
        if any(members for group in packed.rngs for members in group):
            slices = tree.map(lambda x: ShapeDtypeStruct(x.shape[1:], x.dtype), xs)
            eval_shape(lambda state, xs: step(shared, state, xs), state, slices)
        return nothing, None

    def constant_part(state: Any, xs: Any) -> Any:
        shared_out, _, (ys, _) = step(shared, state, xs)
        return shared_out, tree.map(lambda axis, y: y if axis is broadcast else (), out_axes, ys)

    lanes = tree.map(lambda leaf: pnp.asarray(leaf)[None], state)
    first = tree.map(_first_row, xs)
    try:
        return vmap_arrays(constant_part, in_axes=0, out_axes=None, axis_size=1)(lanes, first)
    except ValueError as error:
        if "out_axes" not in str(error):
            raise
        raise errors.BroadcastVariableError from error


def _first_row(x: Any) -> Any:
    """The first row, with its axis; of no rows, one that holds nothing: what depends on it is refused."""
    return x[:1] if x.shape[0] else pnp.zeros((1, *x.shape[1:]), x.dtype)


def remat_scan(
    fn: Callable[..., Any],
    lengths: Sequence[int] = (),
    policy: Callable[..., bool] | None = None,
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    variable_axes: Mapping[Filter, Any] = {True: 0},
    split_rngs: Mapping[Filter, bool] = {True: True},
) -> Callable[..., Any]:
    """Apply `fn(scopes, carry) -> carry` a product of `lengths` times in nested loops whose inner ones are recomputed."""
    options: dict[str, Any] = {
        "variable_broadcast": variable_broadcast,
        "variable_carry": variable_carry,
        "variable_axes": variable_axes,
        "split_rngs": split_rngs,
    }
    if len(lengths) == 1:
        step = fn
    else:
        inner = remat_scan(fn, lengths[1:], policy, **options)
        step = checkpoint(inner, policy=policy, prevent_cse=False)

    def call(scopes: Any, carry: Any) -> Any:
        looped = scan(lambda scopes, carry: (step(scopes, carry), ()), length=lengths[0], **options)
        return looped(scopes, carry)[0]

    return call
