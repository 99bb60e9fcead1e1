# SPDX-License-Identifier: Apache-2.0
"""`shard_alike`: two values that the partitioner spreads over devices in the same way, whichever that is."""

from __future__ import annotations

from typing import Any

from purax import tree
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import shape

__all__ = ["shard_alike", "shard_alike_p"]


class ShardAlike(Primitive):
    """The identity on two values of one shape, which lie in the same way."""

    def infer(self, x: Any, y: Any) -> Any:
        """The operands' types."""
        return x, y

    def reference(self, x: Any, y: Any) -> Any:
        """The operands."""
        return x, y

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The same of the tangents, if there are two."""
        outs = self.bind(*primals)
        return outs, tuple(tangents) if None in tangents else self.bind(*tangents)

    def transpose(self, cotangents: Any, operands: Any, **params: Any) -> Any:
        """The same of the cotangents, if there are two."""
        return tuple(cotangents) if None in cotangents else self.bind(*cotangents)

    def batch(self, axis: Any, operands: Any, dims: Any) -> Any:
        """The same of all lanes."""
        return self.bind(*[shape.align_batch(x, d, axis.size, 0) for x, d in zip(operands, dims, strict=True)]), (0, 0)

    def lower(self, b: Any, ins: Any, outs: Any) -> Any:
        """`sdy.sharding_group`, of copies that may lie in another way than the values themselves."""
        if len(b.module.order) <= 1 or not b.module.meshes or b.module.manual is not None:
            return ins
        mesh = next(iter(b.module.meshes.values()))
        number = b.module.groups = b.module.groups + 1
        copies = []
        for x, out in zip(ins, outs, strict=True):
            dims = ", ".join(["{?}"] * x.aval.ndim)
            copies.append(b.emit(f"sdy.sharding_constraint {x} <@{mesh}, [{dims}]> : {x.hlo}", out))
        for x in copies:
            b.lines.append(f"sdy.sharding_group {x} group_id={number} : {x.hlo}{b.place}")
        return copies


shard_alike_p = ShardAlike("shard_alike")


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """The same values, spread over devices alike: the partitioner chooses one way for both.

    Parameters
    ----------
    x, y : pytrees of arrays
        Of one structure, with leaves of the same shapes.

    Returns
    -------
    (pytree, pytree)
        Like `x` and `y`.

    Raises
    ------
    ValueError
        Their structures or shapes differ.
    """
    ones, treedef = tree.flatten(x)
    others, other = tree.flatten(y)
    if treedef != other:
        raise ValueError(f"shard_alike: Trees should be equal. Got x_tree: {treedef}, y_tree: {other}")
    for i, (a, b) in enumerate(zip(ones, others, strict=True)):
        if aval_of(a).shape != aval_of(b).shape:
            paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(x)]
            raise ValueError(
                f"shard_alike: The leaves shapes of `x` and `y` should match. Got `x{paths[i]}` of shape {aval_of(a).shape} and "
                f"`y{paths[i]}` of shape {aval_of(b).shape}."
            )
    pairs = [shard_alike_p.bind(a, b) for a, b in zip(ones, others, strict=True)]
    return treedef.unflatten([a for a, _ in pairs]), treedef.unflatten([b for _, b in pairs])
