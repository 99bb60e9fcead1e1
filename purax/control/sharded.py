# SPDX-License-Identifier: Apache-2.0
"""`with_sharding_constraint`: how a value inside a program is spread over a mesh."""

from __future__ import annotations

from typing import Any

from purax import errors, tree
from purax.core.primitive import Primitive
from purax.core.trace import Tracer, aval_of
from purax.primitives import shape
from purax.runtime.array import Array
from purax.runtime.transfer import device_put
from purax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding, current_mesh
from purax.sharding.spec import UNCONSTRAINED, names_of

__all__ = ["with_sharding_constraint"]


class ShardingConstraint(Primitive):
    """The identity, on a value that is spread over `mesh` by `spec`."""

    def infer(self, x: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The operand's type."""
        return (x,)

    def reference(self, x: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The operand."""
        return (x,)

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Move the array."""
        return (device_put(operands[0], NamedSharding(params["mesh"], _closed(params["spec"]))),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The same constraint on the tangent."""
        out = self.bind1(*primals, **params)
        return (out,), (None if tangents[0] is None else self.bind1(*tangents, **params),)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """The same constraint on the cotangent."""
        return (self.bind1(cotangents[0], **params),)

    def batch(self, axis: Any, operands: Any, dims: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """The partitioner may choose what becomes of the mapped axis."""
        moved = shape.move_batch_axis(operands[0], dims[0], 0)
        return self.bind(moved, mesh=mesh, spec=PartitionSpec(UNCONSTRAINED, *spec)), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, *, mesh: Mesh, spec: PartitionSpec) -> Any:
        """`sdy.sharding_constraint`; inside a manual region its axes are cut already."""
        if b.module.manual is not None:
            held = set(b.module.manual.axes)
            spec = PartitionSpec(*[part if part is UNCONSTRAINED else tuple(n for n in names_of(part) if n not in held) for part in spec])
            if not spec.axis_names():
                return ins
        text = NamedSharding(mesh, spec).sdy_text(ins[0].aval.ndim, b.module.mesh(mesh)).removeprefix("#sdy.sharding")
        return [b.emit(f"sdy.sharding_constraint {ins[0]} {text} : {ins[0].hlo}", outs[0])]


sharding_constraint_p = ShardingConstraint("sharding_constraint")


def _closed(spec: PartitionSpec) -> PartitionSpec:
    return PartitionSpec(*[None if part is UNCONSTRAINED else part for part in spec])


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same values, spread over devices in a given way.

    Parameters
    ----------
    x : pytree of arrays
    shardings : pytree prefix of Sharding or PartitionSpec
        Specs refer to the current mesh; None leaves a leaf as it is. Outside a program arrays are moved.

    Returns
    -------
    pytree like `x`

    Raises
    ------
    RuntimeError
        A PartitionSpec is given, and there is no current mesh.
    ValueError
        A leaf cannot be cut as its sharding says.
    """
    leaves, treedef = tree.flatten(x)
    wanted = tree.flatten_axes("with_sharding_constraint shardings", treedef, shardings)
    return treedef.unflatten([constrained(leaf, resolve(s)) for leaf, s in zip(leaves, wanted, strict=True)])


def constrained(x: Any, sharding: Any) -> Any:
    """`x`, spread by `sharding`; None leaves it."""
    if sharding is None:
        return x
    aval = aval_of(x)
    if isinstance(sharding, NamedSharding):
        NamedSharding(sharding.mesh, _closed(sharding.spec)).shard_shape(aval.shape)
        return sharding_constraint_p.bind1(x, mesh=sharding.mesh, spec=sharding.spec)
    return x if isinstance(x, Tracer) else device_put(x, sharding)


def resolve(sharding: Any) -> Any:
    """A sharding from what users write: a Sharding, a PartitionSpec of the current mesh, a device, None."""
    if sharding is None or isinstance(sharding, Sharding):
        return sharding
    if isinstance(sharding, PartitionSpec):
        mesh = current_mesh()
        if mesh is None:
            raise RuntimeError(
                errors.explain(
                    "with_sharding_constraint requires a non-empty mesh in context if you are passing `PartitionSpec`s to shardings.",
                    f"{sharding} names axes of a mesh, and there is no current mesh.",
                    "use `with purax.set_mesh(mesh):`, or pass NamedSharding(mesh, spec).",
                )
            )
        return NamedSharding(mesh, sharding)
    if hasattr(sharding, "device_kind"):
        return SingleDeviceSharding(sharding)
    raise TypeError(f"a sharding must be a Sharding or a PartitionSpec, got {sharding!r} of type {type(sharding).__name__}")


def committed_elsewhere(x: Any, sharding: Sharding) -> bool:
    """Whether an array was put on purpose where `sharding` does not want it."""
    if type(x) is not Array or not x.committed:
        return False
    return not x.sharding.is_equivalent_to(sharding, x.ndim)
