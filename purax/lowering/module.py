# SPDX-License-Identifier: Apache-2.0
"""A closed program as a StableHLO module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from purax.core.ir import Jaxpr
from purax.core.name_stack import NameStack
from purax.lowering.emit import Module, attribute, function_text, ndim_of, symbol

__all__ = ["Lowered", "attributes", "lower", "strip_locations", "strip_paths"]

_STRING = r'"(?:[^"\\]|\\.)*"'
_LOCATION = re.compile(rf" loc\((?:#l\d+|{_STRING})\)|^#l\d+ = .*\n?", re.MULTILINE)
_INFO = re.compile(rf" \{{jax\.result_info = {_STRING}\}}|jax\.result_info = {_STRING}, ")


class Lowered(NamedTuple):
    """StableHLO text and what the compiler must be told beside it."""

    text: str
    callbacks: tuple[Any, ...]
    uses_lapack: bool
    kept: tuple[Any, ...] = ()  # lives until the program is compiled; belongs to this lowering alone
    checks: tuple[tuple[Any, ...], Any] | None = None  # types of the last results, and what raises for their values


def lower(
    jaxpr: Jaxpr, name: str = "main", donated: Sequence[bool] = (), devices: Sequence[Any] = (), shardings: Sequence[Any] = (),
    out_shardings: Sequence[Any] = (), platform: str = "cpu", paths: Sequence[str] = (), results: Sequence[str] = (),
) -> Lowered:  # fmt: skip
    """Lower `jaxpr`; constants are leading arguments of `main`.

    Parameters
    ----------
    donated : sequence of bool
        Arguments whose memory the results may take over.
    devices : sequence of Device
        Those that an SPMD program is split over, in the order of their numbers.
    shardings, out_shardings : sequences of NamedSharding or None
        How arguments and results are spread; None leaves it to the partitioner.
    platform : str
        "cpu", "cuda", "rocm", "tpu": some operations have a form of their own there.
    paths, results : sequence of str
        What the user calls the arguments (`params['w']`) and the results (`result[0]`), where that is known.
    jaxpr : Jaxpr
    name : str
        Of the function, for profiles.

    Returns
    -------
    Lowered
    """
    module = Module(devices)
    module.target = platform
    paths = paths if len(paths) == len(jaxpr.invars) else ()
    told = attributes(module, jaxpr.invars, donated, shardings)
    out_told = attributes(module, jaxpr.outvars, (), out_shardings, results)
    main = function_text(module, jaxpr, "main", NameStack([f"jit({name})"]), "public", told, out_told, paths)
    head = f"module @jit_{symbol(name)} attributes {{mhlo.num_partitions = {max(len(devices), 1)} : i32, mhlo.num_replicas = 1 : i32}} {{"  # fmt: skip
    text = "\n".join([head, *module.mesh_definitions(), main, *module.functions, "}", *module.location_table(), ""])
    return Lowered(text, tuple(module.callbacks), module.uses_lapack, tuple(module.kept))


def attributes(
    module: Module, variables: Sequence[Any], donated: Sequence[bool], shardings: Sequence[Any], results: Sequence[str] = ()
) -> list[str]:  # fmt: skip
    """The attribute dictionary of each argument or result, or an empty text.

    Parameters
    ----------
    module : Module
    variables : sequence of Var or Value
    donated : sequence of bool
        Those whose memory may be taken over, or none.
    shardings : sequence of NamedSharding or None
        How they are spread, or none.
    results : sequence of str
        Their paths in the output; of the first so many.

    Returns
    -------
    list of str
    """
    texts = []
    for i, var in enumerate(variables):
        parts = ["jax.buffer_donor = true"] if donated and donated[i] else []
        if i < len(results):
            parts.append(f"jax.result_info = {attribute(results[i])}")
        if shardings and shardings[i] is not None:
            parts.append(f"sdy.sharding = {shardings[i].sdy_text(ndim_of(var.aval), module.mesh(shardings[i].mesh))}")
        texts.append(f"{{{', '.join(parts)}}}" if parts else "")
    return texts


def strip_locations(text: str) -> str:
    """The module without source lines, names of operations, and paths of arguments."""
    return _LOCATION.sub("", text)


def strip_paths(text: str) -> str:
    """The module without the paths of its results, which only readers of the text want."""
    return _INFO.sub("", text) if "jax.result_info" in text else text
