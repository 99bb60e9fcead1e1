# SPDX-License-Identifier: Apache-2.0
"""Exported functions as bytes, and the structures of their arguments.

A file is a first line with the version of the format, a SHA-256 of what follows, the length of a JSON header, the header, and
the modules that it names: portable artifacts of StableHLO, which later versions of XLA read, or compressed StableHLO text where
sizes are open. A derivative is a file of its own at the end.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from purax import dtypes, errors
from purax.control.exported import CALLING_CONVENTION, DisabledSafetyCheck, Exported
from purax.core.aval import ShapedArray, array_aval
from purax.core.dims import Dim, SymbolicScope, parse
from purax.lazy import lazy
from purax.primitives.random_bits import GENERATORS
from purax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec, spread_of
from purax.tree import nodes
from purax.tree._native import PyTreeDef, registry

__all__ = [
    "deserialize", "load", "register_namedtuple_serialization", "register_pytree_node_serialization", "save", "serialize",
]  # fmt: skip

_jaxlib = lazy("purax.runtime._jaxlib")
_MAGIC = b"purax exported function 1\n"


def serialize(exported: Exported, vjp_order: int = 0) -> bytearray:
    """The function as bytes.

    Parameters
    ----------
    exported : Exported
    vjp_order : int
        How many times it can be differentiated after it was read again.

    Returns
    -------
    bytearray

    Raises
    ------
    ValueError
        The arguments have a type of node that was not registered for serialization.
    """
    scope = exported.scope
    as_text = scope is not None
    parts = [_module_bytes(text, as_text) for text in dict.fromkeys(exported.modules.values())]
    numbers = {text: i for i, text in enumerate(dict.fromkeys(exported.modules.values()))}
    if vjp_order > 0:
        parts.append(bytes(serialize(exported.vjp(), vjp_order - 1)))
    header = {
        "calling_convention": exported.calling_convention_version,
        "name": exported.fun_name,
        "in_tree": _tree_form(exported.in_tree),
        "out_tree": _tree_form(exported.out_tree),
        "ins": [_aval_form(aval) for aval in exported.in_avals],
        "outs": [_aval_form(aval) for aval in exported.out_avals],
        "constraints": None if scope is None else scope.texts,
        "platforms": exported.platforms,
        "modules": {name: numbers[text] for name, text in exported.modules.items()},
        "checks": [[check.kind, check.target] for check in exported.disabled_safety_checks],
        "vjp": vjp_order > 0,
        "devices": exported.nr_devices,
        "in_specs": [_spec_form(spec) for spec in exported.in_specs],
        "out_specs": [_spec_form(spec) for spec in exported.out_specs],
        "calls_global": exported.calls_global,
        "kept": exported.module_kept_var_idx,
        "as_text": as_text,
        "sizes": [len(part) for part in parts],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    body = len(text).to_bytes(8, "little") + text + b"".join(parts)
    return bytearray(_MAGIC + hashlib.sha256(body).digest() + body)


def deserialize(blob: bytes | bytearray) -> Exported:
    """Read what `Exported.serialize` gave.

    Raises
    ------
    DamagedFileError
        The bytes are no exported function, or not whole, or of a later version.
    """
    blob = bytes(blob)
    body = blob[len(_MAGIC) + 32 :]
    if not blob.startswith(_MAGIC) or hashlib.sha256(body).digest() != blob[len(_MAGIC) : len(_MAGIC) + 32]:
        raise errors.DamagedFileError(
            f"these {len(blob)} bytes are no exported function of this version, or they are not whole; export it again"
        )
    start = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(body[8:start])
    if header["calling_convention"] > CALLING_CONVENTION:
        raise errors.DamagedFileError(
            "the function was exported by a later version of purax; load it with that version"
        )
    parts = []
    for size in header["sizes"]:
        parts.append(body[start : start + size])
        start += size
    scope = None if header["constraints"] is None else SymbolicScope(header["constraints"])
    modules = {name: _module_text(parts[i], header["as_text"]) for name, i in header["modules"].items()}
    return Exported(
        header["name"], _tree_of(header["in_tree"]), tuple([_aval_of(form, scope) for form in header["ins"]]),
        _tree_of(header["out_tree"]), tuple([_aval_of(form, scope) for form in header["outs"]]), tuple(header["platforms"]),
        modules, tuple([DisabledSafetyCheck(*check) for check in header["checks"]]),
        (lambda: deserialize(parts[-1])) if header["vjp"] else None, nr_devices=header["devices"],
        in_specs=_specs_of(header["in_specs"]), out_specs=_specs_of(header["out_specs"]), calls_global=header["calls_global"],
        kept=tuple(header["kept"]) if "kept" in header else None,
    )  # fmt: skip


def _module_bytes(text: str, as_text: bool) -> bytes:
    return zlib.compress(text.encode()) if as_text else bytes(_jaxlib.to_portable(text))


def _module_text(blob: bytes, as_text: bool) -> str:
    return zlib.decompress(blob).decode() if as_text else str(_jaxlib.from_portable(blob))


def _specs_of(forms: list[Any]) -> tuple[Any, ...]:
    """Partition specs out of lists of axis names, lists of them, and None."""
    return tuple([None if form is None else _spec_of(form) for form in forms])


def _spec_form(spec: PartitionSpec | None) -> Any:
    """The entries as a list; beside the axes of sums where there are such."""
    if spec is None or not (spec.unreduced or spec.reduced):
        return None if spec is None else list(spec)
    return {"parts": list(spec), "unreduced": sorted(spec.unreduced), "reduced": sorted(spec.reduced)}


def _spec_of(form: Any) -> PartitionSpec:
    parts, sums = (
        (form, {}) if isinstance(form, list) else (form["parts"], {k: form[k] for k in ("unreduced", "reduced")})
    )
    return PartitionSpec(*[tuple(part) if isinstance(part, list) else part for part in parts], **sums)


# --- types ------------------------------------------------------------------------------------------------------------------


def _aval_form(aval: ShapedArray) -> list[Any]:
    shape = [str(d) if type(d) is Dim else d for d in aval.shape]
    if isinstance(aval.dtype, dtypes.KeyDtype):
        return [shape, {"key": aval.dtype.impl.name}, False]
    form = [shape, aval.dtype.name, aval.weak_type]
    if aval.spread is not None:
        mesh = aval.spread.mesh
        form.append(
            [mesh.axis_sizes, mesh.axis_names, [kind.name for kind in mesh.axis_types], _spec_form(aval.spread.spec)]
        )
    return form


def _aval_of(form: list[Any], scope: SymbolicScope | None) -> ShapedArray:
    shape, name, weak, *spread = form
    sizes = tuple([parse(d, scope) if isinstance(d, str) and scope is not None else d for d in shape])
    dtype = GENERATORS[name["key"]].dtype if isinstance(name, dict) else dtypes.named(name)
    aval = array_aval(sizes, dtype, weak)
    for axes, names, kinds, spec in spread:
        mesh = AbstractMesh(axes, tuple(names), tuple([AxisType[kind] for kind in kinds]))
        aval = aval.with_spread(spread_of(NamedSharding(mesh, _spec_of(spec)), len(sizes)))
    return aval


# --- structures -------------------------------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """How nodes of one type are written: their name, and their auxiliary data as bytes."""

    nodetype: type
    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


_BY_TYPE: dict[type, _Kind] = {}
_BY_NAME: dict[str, _Kind] = {}


def register_pytree_node_serialization(
    nodetype: type,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Any], Any] | None = None,
) -> type:
    """Say how nodes of a type are written in exported functions.

    Parameters
    ----------
    nodetype : type
        Registered as a node already, or a named tuple with `from_children`.
    serialized_name : str
        What it is called in files; it must stay the same.
    serialize_auxdata, deserialize_auxdata : callable
        Auxiliary data to bytes and back.
    from_children : callable, optional
        Kept for compatibility: nodes are made as their registration says.

    Returns
    -------
    type
        `nodetype`.

    Raises
    ------
    ValueError
        The type is no node, or it or the name is registered already.
    """
    named_tuple = issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")
    if from_children is None and (named_tuple or not nodes.is_tree_node(nodetype)):
        raise ValueError(f"{nodetype.__name__} is no node: call register_pytree_node for it first")
    if nodetype in _BY_TYPE:
        raise ValueError(f"{nodetype.__name__} is registered already, as {_BY_TYPE[nodetype].name!r}")
    if serialized_name in _BY_NAME:
        raise ValueError(
            f"the name {serialized_name!r} belongs to {_BY_NAME[serialized_name].nodetype.__name__} already"
        )
    kind = _Kind(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata)
    _BY_TYPE[nodetype] = _BY_NAME[serialized_name] = kind
    return nodetype


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Say that a named tuple is called `serialized_name` in exported functions.

    Raises
    ------
    ValueError
        It is no named tuple, or it or the name is registered already.
    """
    if not (issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"{nodetype.__name__} is no named tuple: use register_pytree_node_serialization")
    return register_pytree_node_serialization(
        nodetype, serialized_name=serialized_name, serialize_auxdata=lambda _: b"", deserialize_auxdata=lambda _: nodetype,
        from_children=lambda _, children: nodetype(*children),
    )  # fmt: skip


register_pytree_node_serialization(
    OrderedDict,
    serialized_name="OrderedDict",
    serialize_auxdata=lambda keys: json.dumps(list(_strings(keys))).encode(),
    deserialize_auxdata=lambda text: tuple(json.loads(text)),
)


def _strings(keys: Any) -> Any:
    if not all(isinstance(key, str) for key in keys):
        raise TypeError(
            f"dictionaries in arguments and outputs of exported functions have strings as keys, not {list(keys)}"
        )
    return keys


def _tree_form(structure: Any) -> Any:
    """A structure as JSON: a leaf is 0, None is null, a tuple, list or dictionary is named by its kind."""
    node = structure.node_data()
    if node is None:
        return 0
    nodetype, aux = node
    children = [_tree_form(child) for child in structure.children()]
    if nodetype is type(None):
        return None
    if nodetype in (tuple, list):
        return [nodetype.__name__, children]
    if nodetype is dict:
        return ["dict", children, list(_strings(aux))]
    kind = _BY_TYPE.get(nodetype)
    if kind is None:
        raise ValueError(
            errors.explain(
                f"the arguments or outputs hold a {nodetype.__module__}.{nodetype.__qualname__}, which is not registered for serialization.",
                fix="call export.register_pytree_node_serialization or export.register_namedtuple_serialization for it.",
            )
        )
    return ["node", children, kind.name, base64.b64encode(kind.write(aux)).decode()]


def _tree_of(form: Any) -> Any:
    def make(node: Any, children: Any = ()) -> Any:
        return PyTreeDef.from_node_data_and_children(registry, node, [_tree_of(child) for child in children])

    if form == 0:
        return make(None)
    if form is None:
        return make((type(None), None))
    what, children, *rest = form
    if what == "dict":
        return make((dict, rest[0]), children)
    if what in ("tuple", "list"):
        return make((tuple if what == "tuple" else list, None), children)
    kind = _BY_NAME.get(rest[0])
    if kind is None:
        raise ValueError(
            f"the exported function has nodes of the type {rest[0]!r}: register it under this name, then load again"
        )
    return make((kind.nodetype, kind.read(base64.b64decode(rest[1]))), children)


# --- files ------------------------------------------------------------------------------------------------------------------


def save(exported: Exported, path: str | os.PathLike[str], vjp_order: int = 0) -> None:
    """Write an exported function to a file.

    Parameters
    ----------
    exported : Exported
    path : str or path
        Replaced as a whole, once the file is written.
    vjp_order : int
        How many derivatives are kept with it.
    """
    temporary = f"{os.fspath(path)}.{os.getpid()}.part"
    with open(temporary, "wb") as file:
        file.write(serialize(exported, vjp_order))
    os.replace(temporary, path)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a function that was saved by its method `save`.

    Parameters
    ----------
    path : path

    Returns
    -------
    callable
        Takes arguments of the types that it was saved for; can be called inside of other functions.

    Raises
    ------
    DamagedFileError
        The file is not whole.

    Examples
    --------
    >>> import tempfile
    >>> double = purax.jit(lambda x: 2 * x)
    >>> path = tempfile.mkdtemp() + "/double.purax"
    >>> double.save(path, np.float32(1))
    >>> purax.load(path)(np.float32(21))
    Array(42., dtype=float32)
    """
    with open(path, "rb") as file:
        return deserialize(file.read()).call
