# SPDX-License-Identifier: Apache-2.0
"""A closed program as a StableHLO module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from purax.core.ir import Jaxpr
from purax.lowering.emit import Module, function_text

__all__ = ["Lowered", "lower", "strip_locations"]

_LOCATION = re.compile(r" loc\(#l\d+\)|^#l\d+ = .*\n?", re.MULTILINE)


class Lowered(NamedTuple):
    """StableHLO text and what the compiler must be told beside it."""

    text: str
    callbacks: tuple[Any, ...]
    uses_lapack: bool


def lower(
    jaxpr: Jaxpr, name: str = "main", attributes: Sequence[str] = (), out_attributes: Sequence[str] = (),
    partitions: int = 1, replicas: int = 1, meshes: Sequence[str] = (),
) -> Lowered:  # fmt: skip
    """Lower `jaxpr`; constants are leading arguments of `main`.

    Parameters
    ----------
    attributes, out_attributes : sequence of str
        MLIR attribute dictionaries beside arguments and results (donation, sharding).
    partitions, replicas : int
        Devices of the SPMD program.
    meshes : sequence of str
        `sdy.mesh` definitions.
    """
    module = Module()
    main = function_text(module, jaxpr, "main", f"jit({name})/", "public", attributes, out_attributes)
    head = f"module @jit_{module.unique(name)} attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = {replicas} : i32}} {{"  # fmt: skip
    text = "\n".join(
        [head, *meshes, *module.meshes.values(), main, *module.functions, "}", *module.location_table(), ""]
    )
    return Lowered(text, tuple(module.callbacks), module.uses_lapack)


def strip_locations(text: str) -> str:
    """The module without source locations: what a cache key may depend on."""
    return _LOCATION.sub("", text)
