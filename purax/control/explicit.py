# SPDX-License-Identifier: Apache-2.0
"""Explicit mesh axes for users: `reshard`, and functions whose mesh axes are the partitioner's or the types'."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from purax import errors, tree
from purax.core.trace import aval_of
from purax.primitives.resharding import destination, reshard_p, reshard_to, with_devices
from purax.sharding import AbstractMesh, AxisType, current_mesh, get_abstract_mesh, use_abstract_mesh

__all__ = ["auto_axes", "explicit_axes", "reshard"]


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The same values, lying in another way on the explicit axes of a mesh, as their types then say.

    Parameters
    ----------
    xs : pytree of arrays
    out_shardings : pytree prefix of PartitionSpec or NamedSharding
        Specs are of the current mesh.

    Returns
    -------
    pytree like `xs`

    Raises
    ------
    ShardingTypeError
        A spec names mesh axes that are not explicit, or a size is not divisible by the number of pieces.
    ValueError
        There is no current mesh, or a spec has more entries than its array has axes.

    Examples
    --------
    >>> import purax
    >>> mesh = purax.make_mesh((1,), ("x",), axis_types=(purax.sharding.AxisType.Explicit,))
    >>> with purax.set_mesh(mesh):
    ...     print(purax.typeof(reshard(purax.numpy.zeros((4, 2)), purax.P("x", None))))
    float32[4@x,2]
    """
    leaves, treedef = tree.flatten(xs)
    wanted = tree.flatten_axes("reshard out_shardings", treedef, out_shardings)
    return treedef.unflatten([_moved(x, s) for x, s in zip(leaves, wanted, strict=True)])


def _moved(x: Any, sharding: Any) -> Any:
    to, mesh = destination(sharding, aval_of(x).ndim, "the sharding of reshard")
    spread = aval_of(x).spread
    if (
        to.unreduced
        and (spread is None or spread.unreduced != to.unreduced)
        and spread is not None
        and spread.unreduced
    ):
        raise errors.ShardingTypeError(
            f"a value that is unreduced along {sorted(spread.unreduced)} cannot become one that is unreduced along {sorted(to.unreduced)}"
        )
    return reshard_to(x, to, mesh)


def _cast(x: Any, mesh: AbstractMesh) -> Any:
    """`x` with a type that tells of the axes of `mesh` that are explicit there."""
    if not hasattr(x, "aval"):
        return x
    spread = x.aval.spread
    to = None if spread is None else spread.on(mesh)
    return x if to is spread else reshard_p.bind1(x, to=to, mesh=with_devices(mesh, current_mesh()))


def _mesh_of(args: Any) -> AbstractMesh:
    mesh = get_abstract_mesh()
    if not mesh.axis_names:
        mesh = next(
            (x.aval.spread.mesh for x in tree.leaves(args) if getattr(getattr(x, "aval", None), "spread", None)), mesh
        )
    return mesh


def _typed(what: str, mesh: AbstractMesh, axes: Any, kind: AxisType) -> AbstractMesh:
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    if not mesh.axis_names:
        raise ValueError(
            errors.explain(
                f"{what} was called without a mesh.",
                "It changes the types of mesh axes.",
                "use `with purax.set_mesh(mesh):`.",
            )
        )
    unknown = [n for n in names if n not in mesh.axis_names]
    if unknown:
        raise ValueError(f"{what}: the mesh has the axes {mesh.axis_names}, not {unknown}")
    held = [n for n in names if n in mesh.manual_axes]
    if held:
        raise NotImplementedError(
            f"{what}: Going from `Manual` axes to `Auto` or `Explicit` ones is not possible: {', '.join(held)} are in the hands of a "
            "shard_map around; name other axes"
        )
    return mesh.update_axis_types(dict.fromkeys(names, kind))


def auto_axes(f: Any = None, /, *, axes: str | Iterable[str] | None = None, out_sharding: Any = None) -> Any:
    """A function in which explicit mesh axes are left to the partitioner, as in `jit` over a mesh of automatic axes.

    Parameters
    ----------
    f : callable
        Left out, a decorator is returned.
    axes : str or iterable of str, optional
        Those axes; all by default.
    out_sharding : pytree prefix of PartitionSpec or NamedSharding
        How the results lie; may be given at the call, too.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        There is no mesh.
    TypeError
        `out_sharding` is not given (at the call).
    """
    if f is None:
        return lambda fun: auto_axes(fun, axes=axes, out_sharding=out_sharding)

    @functools.wraps(f)
    def automatic(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        if out_sharding is None:
            raise TypeError(
                "auto_axes: give out_sharding, here or where the function is made: the types of its results cannot tell how they lie"
            )
        mesh = _mesh_of((args, kwargs))
        if not mesh.explicit_axes and not mesh.manual_axes:
            return f(*args, **kwargs)
        inner = _typed("auto_axes", mesh, axes, AxisType.Auto)
        with use_abstract_mesh(inner):
            given, named = tree.map(lambda x: _cast(x, inner), (args, kwargs))
            outs = f(*given, **named)
        with use_abstract_mesh(mesh):
            return reshard(outs, out_sharding)

    return automatic


def explicit_axes(f: Any = None, /, *, axes: str | Iterable[str] | None = None, in_sharding: Any = None) -> Any:
    """A function in which mesh axes are explicit: types say how values lie.

    Parameters
    ----------
    f : callable
        Left out, a decorator is returned.
    axes : str or iterable of str, optional
        Those axes; all by default.
    in_sharding : pytree prefix of the positional arguments, of PartitionSpec or NamedSharding
        How the arguments lie; may be given at the call, too.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        There is no mesh.
    TypeError
        `in_sharding` is not given (at the call).
    """
    if f is None:
        return lambda fun: explicit_axes(fun, axes=axes, in_sharding=in_sharding)

    @functools.wraps(f)
    def typed(*args: Any, in_sharding: Any = in_sharding, **kwargs: Any) -> Any:
        if in_sharding is None:
            raise TypeError(
                "explicit_axes: give in_sharding, here or where the function is made: how the arguments lie is not known"
            )
        mesh = _mesh_of((args, kwargs))
        inner = _typed("explicit_axes", mesh, axes, AxisType.Explicit)
        with use_abstract_mesh(inner):
            given = reshard(args, in_sharding)
            outs = f(*given, **kwargs)
        return tree.map(lambda x: _cast(x, mesh), outs)

    return typed
