# SPDX-License-Identifier: Apache-2.0
"""`vmap` in chunks: a loop over groups of lanes, so that memory is that of one group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import errors, tree
from purax.control import loop, refs
from purax.control.program import merge, partition
from purax.core.trace import aval_of
from purax.primitives import shape
from purax.transforms import vmap as lanes
from purax.transforms.flat import like

__all__ = ["vmap"]


def vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None, axis_size: int | None = None,
    spmd_axis_name: Any = None, sum_match: bool = False, chunk: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Map `fun` over an axis of its arguments, without a loop, or in a loop over chunks of the axis.

    Parameters
    ----------
    fun : callable
    in_axes : int, None, or a pytree prefix of the positional arguments
        Axis to map over, per argument; None: the same value in every lane. Keyword arguments are mapped over axis 0.
    out_axes : int, None, or a pytree prefix of the output
        Where the mapped axis appears in the output.
    axis_name : hashable, optional
        Name for collectives (`purax.lax.psum`).
    axis_size : int, optional
        Needed when nothing is mapped.
    spmd_axis_name : str or tuple of str, optional
        Mesh axes that sharding constraints and shard_map inside `fun` cut the mapped axis along.
    chunk : int, optional
        Map so many lanes at a time: intermediate values take the memory of `chunk` lanes, in reverse mode, too, if `fun` is
        checkpointed. The last chunk may be smaller.
    sum_match : bool
        Without effect.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        Mapped axes of different sizes, `in_axes` that does not fit the arguments, `chunk` less than 1, or `chunk` with an
        `axis_name`: lanes of different chunks cannot see each other.
    """
    if chunk is None:
        options = (axis_name, axis_size, spmd_axis_name, sum_match)
        return _with_refs(fun, in_axes, out_axes, lambda f, ins, outs: lanes.vmap(f, ins, outs, *options))
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"vmap: chunk must be a positive int, got {chunk!r}")
    if axis_name is not None:
        raise ValueError(
            f"vmap: chunk={chunk} cannot be given together with axis_name={axis_name!r}: collectives would see the lanes of one "
            "chunk only. Leave chunk out, or combine the results outside."
        )
    lanes.vmap(fun, in_axes, out_axes)  # checks what it can
    return _with_refs(
        fun, in_axes, out_axes, lambda f, ins, outs: _by_chunks(f, ins, outs, axis_size, spmd_axis_name, chunk)
    )


def _by_chunks(fun: Any, in_axes: Any, out_axes: Any, axis_size: int | None, spmd_axis_name: Any, chunk: int) -> Any:
    """The mapped function, in a loop over chunks of the lanes."""

    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        axes = tree.flatten_axes("vmap in_axes", treedef, (in_axes, 0))
        whole = lanes.vmap(fun, in_axes, out_axes, axis_size=axis_size)
        if any(a is not None and not -(n := aval_of(x).ndim) <= a < n for x, a in zip(leaves, axes, strict=True)):
            return whole(*args, **kwargs)  # raises
        front = [
            shape.move_batch_axis(x, a % aval_of(x).ndim, 0) if a is not None else x
            for x, a in zip(leaves, axes, strict=True)
        ]
        shared, rows = partition([a is not None for a in axes], front)
        if len({aval_of(x).shape[0] for x in rows}) != 1:  # an error, or nothing to cut
            return whole(*args, **kwargs)
        places: list[Any] = []

        def lane(*own: Any) -> Any:
            inner, options = treedef.unflatten(merge([a is not None for a in axes], shared, own))
            return fun(*inner, **options)

        def block(*some: Any) -> Any:
            """Outputs of some lanes, mapped axis first; those without one are repeated."""
            out = lanes.vmap(lane, 0, tree.map(lambda _: 0, out_axes), spmd_axis_name=spmd_axis_name)(*some)
            outs, out_tree = tree.flatten(out)
            places[:] = tree.flatten_axes("vmap out_axes", out_tree, out_axes)
            size = aval_of(some[0]).shape[0]
            return out_tree.unflatten(
                [shape.broadcast_batch(x, size, 0) if a is None else x for x, a in zip(outs, places, strict=True)]
            )

        outs, out_tree = tree.flatten(loop.by_blocks(block, rows, chunk))
        return out_tree.unflatten([_placed(x, a) for x, a in zip(outs, places, strict=True)])

    return like(mapped, fun, "vmap")


def _placed(x: Any, axis: int | None) -> Any:
    """An output with its leading axis moved; of an output without a mapped axis, one lane."""
    if axis is None:
        return shape.squeeze(shape.slice_in_dim(x, 0, 1), (0,))
    return shape.move_batch_axis(x, 0, axis % aval_of(x).ndim)


def _with_refs(fun: Any, in_axes: Any, out_axes: Any, mapping: Callable[[Any, Any, Any], Any]) -> Any:
    """`mapping` for arguments with references, which it refuses before it calls the function."""
    plain = mapping(fun, in_axes, out_axes)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return plain(*args, **kwargs)
        except errors.ReferenceUseError:
            if not any(map(refs.is_ref, tree.leaves((args, kwargs)))):
                raise
        return _over_refs(fun, in_axes, out_axes, args, kwargs, mapping)

    mapped = like(mapped, fun, "vmap")
    mapped.__doc__ = plain.__doc__
    return mapped


def _over_refs(fun: Any, in_axes: Any, out_axes: Any, args: Any, kwargs: Any, mapping: Any) -> Any:
    """Lanes get references to their rows of references with a mapped axis; what they hold then goes back."""
    refs.bury("vmap", (args, kwargs))  # no reference twice
    leaves, treedef = tree.flatten((args, kwargs))
    axes = tree.flatten_axes("vmap in_axes", treedef, (in_axes, 0))
    chosen = [i for i, (x, a) in enumerate(zip(leaves, axes, strict=True)) if refs.is_ref(x) and a is not None]
    if any(isinstance(leaves[i], refs.RefView) for i in chosen):
        raise TypeError("TransformedRefs are not allowed as mapped arguments of vmap: pass the reference itself.")
    shared, rows = partition([a is not None for a in axes], leaves)
    places = [a for a in axes if a is not None]
    values = [x[...] if refs.is_ref(x) else x for x in rows]

    def lane(*own: Any) -> Any:
        whole = merge([a is not None for a in axes], shared, own)
        for i in chosen:
            whole[i] = refs.new_ref(whole[i])
        inner, named = treedef.unflatten(whole)
        return fun(*inner, **named), [whole[i][...] for i in chosen]

    back = [axes[i] for i in chosen]
    out, changed = mapping(lane, tuple(places), (out_axes, back))(*values)
    for i, value in zip(chosen, changed, strict=True):
        leaves[i][...] = value
    return out
