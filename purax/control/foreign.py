# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled kernels that users bring along: `ffi_call`, a custom call of XLA's foreign function interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.control.loop import scan
from purax.core.aval import array_aval
from purax.core.effects import IO
from purax.core.primitive import Primitive, Undefined
from purax.lowering.emit import dense
from purax.primitives import joining, operands, shape
from purax.primitives.random_bits import random_unwrap

__all__ = ["ffi_call", "ffi_call_p"]

_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


_EFFECTS = frozenset((IO,))


class ForeignCall(Primitive):
    """Call of a kernel.

    Params
    ------
    target : str
        Name that the kernel was registered under.
    results : tuple of ShapedArray
    attributes : str
        The dictionary of attributes as MLIR writes it; the plain text of the old interfaces.
    version : int
        Of the interface; 4 is the typed one.
    side_effect : bool
    method : str or None
        What `vmap` does.
    layouts : pair of tuples
        For each operand and each result its axes from the slowest to the fastest; None for rows.
    aliases : tuple of (operand, result)
        Results that overwrite an operand's memory.
    """

    reference = Undefined("what a kernel computes is known to its author alone")

    def infer(self, *avals: Any, results: Any, **_: Any) -> Any:
        """The promised types."""
        return results

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """One, if the kernel has side effects."""
        return _EFFECTS if params["side_effect"] else frozenset()

    def jvp(self, primals: Any, tangents: Any, *, target: str, **_: Any) -> Any:
        """Raise: a kernel has no derivative rule."""
        raise errors.KernelError(
            errors.explain(
                f"The FFI call to `{target}` cannot be differentiated.",
                "the derivative of a kernel is not known.",
                "give it one: wrap the call in a function with custom_jvp or custom_vjp.",
            )
        )

    def batch(self, axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        """As `method` says: lane by lane, or one call with the mapped axis in front."""
        method, count = params["method"], len(params["results"])
        if method is None:
            raise errors.KernelError(
                errors.explain(
                    f"The FFI call to `{params['target']}` was mapped by vmap.",
                    "it is not known whether the kernel takes arrays that have one axis more.",
                    f"say what to do by vmap_method=, one of {', '.join(map(repr, _METHODS))}.",
                )
            )
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(values, dims, strict=True)]
        if method.startswith("sequential"):
            return self._lanes(axis.size, moved, dims, params), (0,) * count
        if method != "legacy_vectorized":
            size = axis.size if method == "broadcast_all" else 1
            moved = [shape.broadcast_batch(x, size, 0) if d is None else x for x, d in zip(moved, dims, strict=True)]
        results = tuple([a.update(shape=(axis.size, *a.shape)) for a in params["results"]])
        layouts = tuple([tuple([_one_more(order) for order in part]) for part in params["layouts"]])
        return self.bind(*moved, **{**params, "results": results, "layouts": layouts}), (0,) * count

    def _lanes(self, size: int, moved: Any, dims: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        def lane(rows: Any) -> Any:
            taken = iter(rows)
            return self.bind(*[x if d is None else next(taken) for x, d in zip(moved, dims, strict=True)], **params)

        rows = [x for x, d in zip(moved, dims, strict=True) if d is not None]
        if params["method"] == "sequential":
            return tuple(scan(lambda _, row: (None, lane(row)), None, rows, length=size)[1])
        lanes = [lane([joining.index_in_dim(x, i, 0, False) for x in rows]) for i in range(size)]
        return tuple(
            [joining.concatenate([shape.expand_dims(x, (0,)) for x in parts], 0) for parts in zip(*lanes, strict=True)]
        )

    def lower(
        self, b: Any, ins: Any, outs: Any, *, target: str, attributes: str, version: int, side_effect: bool, layouts: Any,
        aliases: Any, **_: Any,
    ) -> Any:  # fmt: skip
        """The custom call."""
        alias = ", ".join(
            "#stablehlo.output_operand_alias<output_tuple_indices = "
            f"[{result if len(outs) > 1 else ''}], operand_index = {operand}, operand_tuple_indices = []>"
            for operand, result in aliases
        )
        parts = [
            f"api_version = {version} : i32",
            f"has_side_effect = {'true' if side_effect else 'false'}",
            f"backend_config = {attributes}",
            f"operand_layouts = [{', '.join(map(_layout, (x.aval for x in ins), layouts[0]))}]",
            f"result_layouts = [{', '.join(map(_layout, outs, layouts[1]))}]",
            f"output_operand_aliases = [{alias}]",
        ]
        types = f"({', '.join(x.hlo for x in ins)}) -> ({', '.join(a.hlo for a in outs)})"
        text = f'stablehlo.custom_call @"{target}"({", ".join(map(str, ins))}) {{{", ".join(parts)}}} : {types}'
        return b.emit_many(text, outs)


ffi_call_p = ForeignCall("ffi_call")


def _one_more(order: Any) -> Any:
    return None if order is None else (0, *[axis + 1 for axis in order])


def _layout(aval: Any, order: Any) -> str:
    axes = list(order or range(len(aval.shape)))[::-1]
    return f"dense<{axes if axes else ''}> : tensor<{len(axes)}xindex>"


def ffi_call(
    target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False, vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None, output_layouts: Any = None,
    input_output_aliases: dict[int, int] | None = None, custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function of arrays that calls a compiled kernel.

    Parameters
    ----------
    target_name : str
        Name that the kernel was registered under by `register_ffi_target`.
    result_shape_dtypes : ShapeDtypeStruct, or sequence of them
        Types of the results; arrays will do.
    has_side_effect : bool
        Whether the call is to happen also where its results are not needed.
    vmap_method : str, optional
        What `vmap` does: "sequential" and "sequential_unrolled" call the kernel lane by lane; "expand_dims", "broadcast_all" and
        "legacy_vectorized" call it once, with the mapped axis in front of all operands that have it, where those that lack it
        get an axis of size 1, the full axis, or none.
    input_layouts, output_layouts : sequence of (sequence of int, or None), optional
        For each array its axes from the slowest to the fastest in memory; rows by default. A single result has a single layout.
    input_output_aliases : dict from int to int, optional
        Number of an operand to that of the result that may overwrite its memory, of the same type.
    custom_call_api_version : int
        4 is the typed interface; smaller numbers are older ones, whose kernels get `legacy_backend_config` as text.
    legacy_backend_config : str, optional

    Returns
    -------
    callable
        Takes arrays (of random keys, the words), and attributes by keyword: bool, int (64 bits), float (64 bits), str, NumPy scalars and arrays, and sequences
        and dictionaries of these.

    Raises
    ------
    ValueError
        A result type, alias or attribute cannot be.
    KernelError
        The call is differentiated, or mapped without `vmap_method`.
    """
    single = hasattr(result_shape_dtypes, "shape") or not isinstance(result_shape_dtypes, (tuple, list))
    results = tuple(map(_result, range(10**6), [result_shape_dtypes] if single else result_shape_dtypes))
    if vmap_method not in (None, *_METHODS):
        raise ValueError(f"ffi_call: vmap_method is one of {', '.join(map(repr, _METHODS))}, got {vmap_method!r}.")
    out_layouts = (None,) * len(results) if output_layouts is None else (output_layouts,) if single else output_layouts
    outs = _orders("output_layouts", results, out_layouts)

    def call(*args: Any, **attributes: Any) -> Any:
        given = [random_unwrap(x) if dtypes.is_key(x.aval.dtype) else x for x in map(operands.lift, args)]
        avals = [x.aval for x in given]
        ins = _orders("input_layouts", avals, (None,) * len(avals) if input_layouts is None else input_layouts)
        found = ffi_call_p.bind(
            *given, target=target_name, results=results, version=int(custom_call_api_version), layouts=(ins, outs),
            attributes=_config(custom_call_api_version, legacy_backend_config, attributes), side_effect=bool(has_side_effect),
            method=vmap_method, aliases=_aliases(input_output_aliases or {}, avals, results),
        )  # fmt: skip
        return found[0] if single else list(found) if isinstance(result_shape_dtypes, list) else found

    return call


def _result(position: int, found: Any) -> Any:
    if not (hasattr(found, "shape") and hasattr(found, "dtype")):
        raise ValueError(
            f"ffi_call: All elements of result_shape_dtypes have a shape and a dtype; got {found!r} at position {position}."
        )
    return array_aval(tuple(found.shape), dtypes.named(found.dtype))


def _orders(name: str, avals: Any, layouts: Any) -> tuple[Any, ...]:
    if len(layouts) != len(avals):
        raise ValueError(f"ffi_call: {name} has {len(layouts)} entries for {len(avals)} arrays.")
    orders = [None if order is None else tuple(map(int, getattr(order, "major_to_minor", order))) for order in layouts]
    for aval, order in zip(avals, orders, strict=True):
        if order is not None and sorted(order) != list(range(aval.ndim)):
            raise ValueError(f"ffi_call: {name} gives {order} for an array of shape {aval.shape}; name each axis once.")
    return tuple(orders)


def _aliases(pairs: dict[int, int], avals: Any, results: Any) -> tuple[tuple[int, int], ...]:
    for operand, result in pairs.items():
        if not 0 <= operand < len(avals):
            raise ValueError(
                f"ffi_call: input_output_aliases with input index {operand}, and there are {len(avals)} operands."
            )
        if not 0 <= result < len(results):
            raise ValueError(
                f"ffi_call: input_output_aliases with output index {result}, and there are {len(results)} results."
            )
        source, target = avals[operand], results[result]
        if (source.shape, source.dtype) != (target.shape, target.dtype):
            raise ValueError(
                f"ffi_call: operand {operand} of type {source.str_short()} cannot lend its memory to result {result} of type "
                f"{target.str_short()}: the types differ."
            )
    return tuple(sorted(pairs.items()))


def _config(version: int, legacy: str | None, attributes: dict[str, Any]) -> str:
    if version >= 4:
        if legacy is not None:
            raise ValueError(
                f"ffi_call: legacy_backend_config is for interfaces before version 4, this is version {version}."
            )
        return _attribute(attributes)
    if attributes:
        raise ValueError(
            f"ffi_call: attributes need version 4 of the interface, got version {version} and {list(attributes)}."
        )
    return _quoted(legacy or "")


def _quoted(text: str) -> str:
    return (
        '"'
        + "".join(
            c if c.isascii() and c.isprintable() and c not in '"\\' else f"\\{b:02X}" for c in text for b in c.encode()
        )
        + '"'
    )


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _quoted(name)


def _attribute(value: Any) -> str:
    """An attribute as MLIR writes it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_attribute(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_attribute, value)) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        value = np.int64(value) if isinstance(value, int) else np.float64(value)
    if isinstance(value, (np.ndarray, np.generic)):
        aval = array_aval(value.shape, dtypes.named(value.dtype))
        text = dense(np.asarray(value), value.shape)
        if isinstance(value, np.ndarray):
            return f"{text} : {aval.hlo}"
        return f"{text.removeprefix('dense<').removesuffix('>')} : {_element_type(aval)}"
    raise ValueError(
        f"ffi_call: an attribute is a number, a string, a NumPy array, or holds these; got {type(value).__name__}."
    )


def _element_type(aval: Any) -> str:
    return str(aval.hlo).removeprefix("tensor<").removesuffix(">")
