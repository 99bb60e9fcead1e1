# SPDX-License-Identifier: Apache-2.0
"""`tabulate`: a table of the modules of a model with their inputs, outputs and variables, computed from shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax import random, tree
from purax.errors import LayerError, TracerError
from purax.linen import meta
from purax.linen._support import ShapeDtypeStruct, eval_shape, flops_of, grad
from purax.linen.context import Call, running
from purax.linen.declare import name_of, wrap_method
from purax.linen.filters import CollectionFilter, DenyList

__all__ = ["module_paths", "tabulate", "tabulate_module"]

_no_intermediates = DenyList("intermediates")


def _shapes(values: Any) -> Any:
    """Replace arrays by their shapes."""
    return tree.map(lambda leaf: ShapeDtypeStruct(leaf.shape, leaf.dtype) if _is_array(leaf) else leaf, values)


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def record_call(
    slot: Any, module: Any = None, function: Any = None, args: Any = (), kwargs: Any = None, result: Any = None
) -> int:
    """Reserve a place in the record of calls (`slot` None), or fill it once the call has returned."""
    calls = running.calls[-1]
    if slot is None:
        calls.append(None)
        return len(calls) - 1
    calls[slot] = Call(
        slot,
        module.scope.path,
        module.clone(_deep_clone=True, _reset_names=True, name=None),
        function,
        _shapes(args),
        _shapes(kwargs or {}),
        _shapes(result),
        tuple(module.scope.rngs),
    )
    return slot


class Row:
    """One line of the table: a call, and the variables of its module, those of submodules shown elsewhere left out."""

    def __init__(self, call: Call, variables: dict[str, Any], own: dict[str, Any]) -> None:
        self.call = call
        self.path = call.path
        self.variables = variables
        self.own = own
        self.flops: int | None = None
        self.vjp_flops: int | None = None

    @property
    def title(self) -> str:
        """Class of the module, with the method unless it is `__call__`."""
        name = type(self.call.module).__name__
        method = name_of(self.call.function)
        return name if method == "__call__" else f"{name} ({method})"


def _rows(
    module: Any, rngs: Any, args: Any, kwargs: Any, mutable: Any, depth: int | None, show_repeated: bool
) -> tuple[list[Row], dict[str, Any]]:
    """Run `init` on shapes, recording the calls; return the rows and all variables."""
    running.calls.append([])
    try:
        variables = eval_shape(lambda: module.init(rngs, *args, mutable=mutable, **kwargs))
        calls = [call for call in running.calls[-1] if call is not None]
    finally:
        running.calls.pop()
    calls.sort(key=lambda call: call.index)
    if depth is not None:
        calls = [call for call in calls if len(call.path) <= depth]
    paths = {call.path for call in calls}
    rows, seen = [], set()
    for call in calls:
        if call.path in seen and not show_repeated:
            continue
        held = {name: _at(collection, call.path) for name, collection in variables.items()}
        own = {name: _without(collection, call.path, paths) for name, collection in held.items() if collection}
        shown = {} if call.path in seen else {name: collection for name, collection in own.items() if collection}
        seen.add(call.path)
        rows.append(Row(call, held, shown))
    return rows, variables


def _at(collection: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        collection = collection.get(name, {}) if isinstance(collection, Mapping) else {}
    return collection


def _without(collection: Any, path: tuple[str, ...], shown: set[tuple[str, ...]]) -> Any:
    """Return a collection without the parts that have rows of their own."""
    if not isinstance(collection, Mapping):
        return collection
    kept = {
        name: _without(held, (*path, name), shown) for name, held in collection.items() if (*path, name) not in shown
    }
    return {name: held for name, held in kept.items() if not (isinstance(held, Mapping) and not held)}


def _size(values: Any) -> tuple[int, int]:
    """Number of elements and of bytes."""
    leaves = [leaf for leaf in tree.leaves(meta.unbox(values)) if hasattr(leaf, "shape")]
    sizes = [int(np.prod(leaf.shape)) for leaf in leaves]
    itemsizes = [int(getattr(leaf.dtype, "itemsize", 4)) for leaf in leaves]
    return sum(sizes), sum(size * item for size, item in zip(sizes, itemsizes, strict=True))


def _bytes(count: int) -> str:
    value, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{count} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _size_text(values: Any) -> str:
    count, size = _size(values)
    return f"{count:,} ({_bytes(size)})" if count else ""


def _text(value: Any, indent: int = 0) -> str:
    """Nested containers as short lines."""
    pad = " " * indent
    if isinstance(value, Mapping):
        lines = []
        for name, held in value.items():
            inner = _text(held, indent + 2)
            plain = not isinstance(held, (Mapping, list, tuple))
            lines.append(f"{pad}{name}: {inner.strip()}" if plain else f"{pad}{name}:\n{inner}")
        return "\n".join(lines)
    if isinstance(value, (list, tuple)):
        return "\n".join(f"{pad}- {_text(held, indent + 2).strip()}" for held in value)
    if _is_array(value):
        return f"{pad}{value.dtype}[{','.join(map(str, value.shape))}]"
    return pad + str(value)


def _cells(row: Row, collections: list[str], flops: bool, vjp_flops: bool) -> list[str]:
    args, kwargs = row.call.args, row.call.kwargs
    inputs = args[0] if len(args) == 1 and not kwargs else [*args, kwargs] if kwargs else list(args)
    cells = ["/".join(row.path), row.title, _text(inputs), _text(row.call.outputs)]
    if flops:
        cells.append("" if row.flops is None else str(row.flops))
    if vjp_flops:
        cells.append("" if row.vjp_flops is None else str(row.vjp_flops))
    for name in collections:
        own = row.own.get(name, {})
        cells.append(f"{_text(meta.unbox(own))}\n\n{_size_text(own)}" if own else "")
    return cells


def _draw(title: str, header: list[str], rows: list[list[str]], footer: list[str], caption: str) -> str:
    """Draw a table with box characters."""
    split = [[cell.split("\n") for cell in row] for row in [header, *rows, footer]]
    widths = [max(len(line) for row in split for line in row[column]) for column in range(len(header))]

    def rule(left: str, cross: str, right: str, line: str) -> str:
        return left + cross.join(line * (width + 2) for width in widths) + right

    def lines(row: list[list[str]], bar: str) -> list[str]:
        height = max(len(cell) for cell in row)
        padded = [[*cell, *[""] * (height - len(cell))] for cell in row]
        return [
            bar + bar.join(f" {cell[i]:<{width}} " for cell, width in zip(padded, widths, strict=True)) + bar
            for i in range(height)
        ]

    total = sum(widths) + 3 * len(widths) + 1
    out = ["", title.center(total).rstrip(), rule("┏", "┳", "┓", "━"), *lines(split[0], "┃"), rule("┡", "╇", "┩", "━")]
    for index, row in enumerate(split[1:]):
        if index:
            out.append(rule("├", "┼", "┤", "─"))
        out.extend(lines(row, "│"))
    out += [rule("└", "┴", "┘", "─"), "", caption.center(total).rstrip(), ""]
    return "\n".join(out)


def _count_flops(row: Row, gradient: bool) -> int | None:
    """Compile the call of a row, or its gradient, and return the estimated operations.

    None for a call that can not run alone: its module holds submodules of another one, or its function values of the trace.
    """
    call, key = row.call, random.key(0)
    arguments, structure = tree.flatten((call.args, call.kwargs))
    places = [index for index, leaf in enumerate(arguments) if _is_array(leaf)]

    def forward(variables: Any, data: list[Any]) -> Any:
        held = list(arguments)
        for index, value in zip(places, data, strict=True):
            held[index] = value
        args, kwargs = tree.unflatten(structure, held)
        rngs = {name: random.fold_in(key, index) for index, name in enumerate(call.rngs)}
        run = call.module.apply
        outputs, _ = run(variables, *args, rngs=rngs, method=wrap_method(call.function), mutable=True, **kwargs)
        return [output for output in tree.leaves(outputs) if _is_array(output)]

    def loss(params: Any, variables: Any, data: list[Any]) -> Any:
        outputs = forward({**variables, "params": params}, data)
        floats = [output for output in outputs if pnp.issubdtype(output.dtype, pnp.inexact)]
        return sum((pnp.sum(output.real) for output in floats), pnp.zeros(()))

    data = [arguments[index] for index in places]
    variables = _shapes(row.variables)
    try:
        if gradient:
            return flops_of(grad(loss), variables.get("params", {}), variables, data)
        return flops_of(forward, variables, data)
    except (LayerError, TracerError):
        return None


def tabulate_module(
    self: Any,
    rngs: Any,
    *args: Any,
    depth: int | None = None,
    show_repeated: bool = False,
    mutable: CollectionFilter = _no_intermediates,
    console_kwargs: Mapping[str, Any] | None = None,
    table_kwargs: Mapping[str, Any] | None = None,
    column_kwargs: Mapping[str, Any] | None = None,
    compute_flops: bool = False,
    compute_vjp_flops: bool = False,
    **kwargs: Any,
) -> str:
    """Return a table of the modules that a call on these inputs runs: path, class, inputs, outputs, variables.

    Parameters
    ----------
    rngs : key or dict of keys
        As for `init`.
    *args, **kwargs
        Arguments of `__call__`, or `method=`.
    depth : int, optional
        How many levels of submodules get rows; the variables of deeper ones count for their parent.
    show_repeated : bool
        Whether second calls of a module get rows.
    mutable : filter
        Collections to make.
    console_kwargs, table_kwargs, column_kwargs : mapping, optional
        Accepted for compatibility; the table is plain text of its natural width.
    compute_flops, compute_vjp_flops : bool
        Whether to compile each call, or its gradient, and show the estimated number of operations.
    self : Module

    Returns
    -------
    str
        The table, with the number of parameters and bytes of each collection.
    """
    del console_kwargs, table_kwargs, column_kwargs
    rows, variables = _rows(self, rngs, args, kwargs, mutable, depth, show_repeated)
    collections = sorted(name for name, held in variables.items() if held)
    header = ["path", "module", "inputs", "outputs"]
    header += ["flops"] * compute_flops + ["vjp_flops"] * compute_vjp_flops
    for row in rows:
        row.flops = _count_flops(row, gradient=False) if compute_flops else None
        row.vjp_flops = _count_flops(row, gradient=True) if compute_vjp_flops else None
    body = [_cells(row, collections, compute_flops, compute_vjp_flops) for row in rows]
    footer = [""] * (len(header) - 1) + ["Total"] + [_size_text(variables[name]) for name in collections]
    caption = f"Total Parameters: {_size_text([variables[name] for name in collections])}"
    return _draw(f"{type(self).__name__} Summary", header + collections, body, footer, caption)


def module_paths(
    self: Any,
    rngs: Any,
    *args: Any,
    show_repeated: bool = False,
    mutable: CollectionFilter = _no_intermediates,
    **kwargs: Any,
) -> dict[str, Any]:
    """Return the modules that a call on these inputs runs, unbound, by path such as "encoder/Dense_0".

    Parameters
    ----------
    self : Module
    rngs : key or dict of keys
    args, kwargs
        Arguments of `__call__`, or `method=`.
    show_repeated : bool
    mutable : filter
        Collections to make.

    Returns
    -------
    dict from str to Module
    """
    rows, _ = _rows(self, rngs, args, kwargs, mutable, None, show_repeated)
    return {"/".join(row.path): row.call.module for row in rows}


def tabulate(module: Any, rngs: Any, **options: Any) -> Callable[..., str]:
    """Return a function that tabulates a module for the arguments it is called with.

    Parameters
    ----------
    module : Module
        Module to show.
    rngs : key or dict of keys
        As for `init`.
    **options
        As for `Module.tabulate`, and keyword arguments of the call.

    Returns
    -------
    callable
        `(*args, **kwargs) -> str`.
    """

    def table(*args: Any, **kwargs: Any) -> str:
        return tabulate_module(module, rngs, *args, **options, **kwargs)

    return table
