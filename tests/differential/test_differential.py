# SPDX-License-Identifier: Apache-2.0
"""Every public function of `purax.numpy` and `purax.scipy` against NumPy and SciPy, on drawn arguments.

A name that is in no table fails. A few examples are drawn for each name, always the same ones;
`PURAX_EXAMPLES=200 pytest tests/differential` draws more, and others each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import os
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import purax
from purax.lazy import LazyModule
from tests.differential import differences, tables
from tests.differential.compare import arrays_in, explain, narrow
from tests.differential.draw import Drawer, kind_of
from tests.differential.entry import Call, Entry

EXAMPLES = int(os.environ.get("PURAX_EXAMPLES", "4"))
# What a wrong argument may raise, in NumPy and here.
MISUSE = (
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    ZeroDivisionError,
    NotImplementedError,
    np.exceptions.AxisError,
)
# How purax gets an array: as it is, as an array of its own, a scalar where it has no dimensions, or traced.
FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "plain": lambda x: x,
    "put": purax.numpy.asarray,
    "scalar": lambda x: x[()],
    "compiled": lambda x: x,
}


def mapped(tree: Any, change: Callable[[np.ndarray], Any]) -> Any:
    """The same arguments with each array changed."""
    if isinstance(tree, np.ndarray):
        return change(tree)
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(part, change) for part in tree)
    return {key: mapped(value, change) for key, value in tree.items()} if isinstance(tree, dict) else tree


def widened(x: np.ndarray, entry: Entry) -> np.ndarray:
    """What the reference gets of an array: 64 bits, and bfloat16, which NumPy does not have, as more."""
    kind = kind_of(x.dtype)
    if kind in "biu":
        return x.astype(np.float64) if entry.inexact and kind != "b" else x
    if kind == "h" or entry.widen:
        return x.astype(np.complex128 if kind == "c" else np.float64)
    return x


def attempt(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The result of a function, or what it raises as an answer to a wrong argument."""
    try:
        return function(), None
    except MISUSE as error:
        return None, error


def run(function: Callable[..., Any], made: Call, compiled: bool) -> Any:
    """Call purax; compiled, all arrays among the arguments are traced."""
    if not compiled:
        return function(*made.args, **made.kwargs)
    arrays: list[np.ndarray] = []
    mapped((made.args, made.kwargs), lambda x: arrays.append(x))

    def traced(values: list[Any]) -> Any:
        rest = iter(values)
        args, kwargs = mapped((made.args, made.kwargs), lambda _: next(rest))
        return function(*args, **kwargs)

    return purax.jit(traced)(arrays)


def as_numpy(tree: Any) -> Any:
    """Results with NumPy arrays in place of purax's."""
    if isinstance(tree, purax.Array):
        return np.asarray(tree)
    return [as_numpy(part) for part in tree] if isinstance(tree, list | tuple) else tree


def references(module: str, name: str) -> Callable[..., Any]:
    """The function of NumPy or SciPy that has a name."""
    path = module.replace("purax.numpy", "numpy").replace("purax.scipy", "scipy")
    # A distribution of SciPy is an object, not a module.
    parent, _, last = path.rpartition(".")
    owner = getattr(importlib.import_module(parent), last) if parent == "scipy.stats" else importlib.import_module(path)
    return getattr(owner, name)


def difference(key: str, entry: Entry, made: Call, how: str, x64: bool) -> str | None:
    """What purax does differently in one call, on purpose or not."""
    module, _, name = key.rpartition(".")
    # Without `enable_x64` the data are narrowed on their way in.
    taken = made if x64 else Call(*mapped((made.args, made.kwargs), lambda x: x.astype(narrow(x.dtype))))
    wide = Call(*mapped((taken.args, taken.kwargs), lambda x: widened(x, entry)))
    reference = entry.reference or references(module, name)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want, refused = attempt(lambda: reference(*wide.args, **wide.kwargs))

    function = getattr(importlib.import_module(module), name)
    if entry.function is not None:
        function = functools.partial(entry.function, function)
    with purax.enable_x64() if x64 else contextlib.nullcontext():
        given_ = Call(*mapped((made.args, made.kwargs), FORMS[how]))
        got, raised = attempt(lambda: as_numpy(run(function, given_, how == "compiled")))
    if refused or raised:
        return None if refused and raised else f"NumPy raises {refused!r}, purax raises {raised!r}"

    views = [entry.view(out, *wide.args, **wide.kwargs) for out in (got, as_numpy(want))]
    fault = explain(*views, entry, [taken.args, taken.kwargs], x64)
    known = fault and differences.expected(key, fault, made)
    if not known:
        return fault
    # A dtype or a sign that differs on purpose does not excuse the values.
    lenient: dict[str, Any] = {differences.DTYPE: {"dtypes": False}, differences.SIGN: {"signs": False}}
    if known.part not in lenient:
        return None
    return explain(*views, dataclasses.replace(entry, **lenient[known.part]), [taken.args, taken.kwargs], x64)


@pytest.mark.parametrize("key", [key for key, entry in tables.TABLE.items() if isinstance(entry, Entry)])
@settings(
    max_examples=EXAMPLES,
    derandomize="PURAX_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    # Making a failing example small takes minutes, so that is for runs that look for faults.
    phases=tuple(Phase) if "PURAX_EXAMPLES" in os.environ else (Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_a_function_answers_as_its_reference(key: str, data: st.DataObject) -> None:
    entry = tables.TABLE[key]
    assert isinstance(entry, Entry)
    drawer = Drawer(data.draw)
    made = entry.arguments(drawer)
    x64 = drawer.one_of(False, True)
    how = drawer.one_of("plain", "put", "scalar", "compiled" if entry.compiled else "put")
    note(f"{key} {how} x64={x64} {made}")
    before = [x.copy() for x in arrays_in([made.args, made.kwargs])]
    assert (fault := difference(key, entry, made, how, x64)) is None, fault
    after = arrays_in([made.args, made.kwargs])
    assert all(a.tobytes() == b.tobytes() for a, b in zip(after, before, strict=True)), "an argument was changed"


def public(module: types.ModuleType) -> list[str]:
    """The public names of a module."""
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    return [name for name in names if not isinstance(getattr(module, name), types.ModuleType | LazyModule)]


def test_every_public_name_is_in_a_table() -> None:
    names = {f"{module}.{name}" for module in tables.MODULES for name in public(importlib.import_module(module))}
    missing, gone = sorted(names - set(tables.TABLE)), sorted(set(tables.TABLE) - names)
    assert not missing, "give these names an entry in tests/differential"
    assert not gone, "these names are gone"


def test_every_difference_is_of_a_known_kind() -> None:
    document = (Path(__file__).parents[2] / "docs" / "differences.md").read_text(encoding="utf-8")
    for one in differences.DIFFERENCES:
        assert one.kind == differences.JAX or f"\n## {one.kind}\n" in document
        assert {f"purax.{name}" for name in one.names.split()} <= set(tables.TABLE)
