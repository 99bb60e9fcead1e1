# SPDX-License-Identifier: Apache-2.0
"""Jaxprs to executables, remembered three times: on the jaxpr, by text in this process, by text on disk.

The text without source locations is the key of the two lower levels, so programs that are equal are compiled once, wherever
and however often they were traced.

Parameters
----------
jaxpr : Jaxpr
    Its constants are inputs.
name : str
    Of the function, for profiles and messages.
how : Compilation
    Devices, donation, flags.
"""

from __future__ import annotations

import gc
import hashlib
import math
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

from purax import config, events
from purax.core.effects import CHECK
from purax.core.hooks import hooks
from purax.core.ir import Jaxpr
from purax.core.tokens import with_tokens
from purax.core.verify import inner_jaxprs
from purax.lowering.module import Lowered, lower, strip_locations, strip_paths
from purax.runtime import client
from purax.runtime import executable as runtime_executable
from purax.sharding import Mesh

__all__ = ["Compilation", "clear", "compile_jaxpr", "forget", "lower_jaxpr", "warn_of_unusable"]

_MEMORY: dict[Any, Any] = {}
_LIMIT = 4096
_LOCK = threading.Lock()
_LOCKS: dict[Any, threading.Lock] = {}


class Compilation:
    """What one compilation depends on beside the program: an explicit, hashable key.

    Attributes
    ----------
    placement : Placement or None
        Devices; None is the default device.
    donated : tuple of bool
        Inputs whose memory the program may reuse.
    in_placements, out_placements : tuple
        Placement of each input and wanted placement of each output on a mesh, or (); None leaves it to the partitioner.
    mesh : Mesh or None
        The mesh that an SPMD program is split over.
    options : tuple of (str, value)
        XLA flags of this program.
    """

    __slots__ = ("donated", "in_placements", "key", "mesh", "options", "out_placements", "placement")

    def __init__(
        self, placement: Any = None, donated: tuple[bool, ...] = (), in_placements: tuple[Any, ...] = (),
        out_placements: tuple[Any, ...] = (), options: tuple[Any, ...] = (), mesh: Any = None,
    ) -> None:  # fmt: skip
        self.placement = placement
        self.donated = donated
        self.in_placements = in_placements
        self.out_placements = out_placements
        self.options = options
        self.mesh = mesh
        self.key = (placement, donated, in_placements, out_placements, options, mesh)

    def form(self) -> tuple[Any, ...]:
        """What the text of a program depends on: how values lie on devices, which are told by their numbers in the program."""
        if self.mesh is None:
            return self.donated, None
        order = {device: number for number, device in enumerate(self.placement.devices)}
        spreads = [
            p if p is None else (p.sharding.mesh.abstract_mesh, tuple([order[d] for d in p.devices]), p.sharding.spec)
            for p in (*self.in_placements, *self.out_placements)
        ]
        return self.donated, self.mesh.abstract_mesh, len(self.in_placements), tuple(spreads)

    def with_options(self, options: Any) -> Compilation:
        """The same with other XLA flags."""
        given = tuple(sorted(options.items()))
        return Compilation(self.placement, self.donated, self.in_placements, self.out_placements, given, self.mesh)

    def with_results(self, count: int) -> Compilation:
        """The same for a program with more results, wherever these lie."""
        if not self.out_placements:
            return self
        more = (None if self.mesh is not None else self.placement,) * count
        outs = (*self.out_placements, *more)
        return Compilation(self.placement, self.donated, self.in_placements, outs, self.options, self.mesh)


DEFAULT = Compilation()


def lower_jaxpr(
    jaxpr: Jaxpr, name: str, how: Compilation = DEFAULT, platform: str | None = None, paths: Sequence[str] | None = None,
    results: Sequence[str] = (),
) -> Lowered:  # fmt: skip
    """StableHLO of a jaxpr whose constants are inputs.

    Programs that lie in the same way on other devices are the same: their text is remembered where they were placed on purpose.

    Parameters
    ----------
    jaxpr, name, how
        As at the head of this file.
    platform : str, optional
        That of the devices by default.
    paths, results : sequence of str
        What the user calls the inputs (by default their names in the program) and the outputs.

    Returns
    -------
    Lowered
    """
    platform = platform or _platform(how)
    paths = jaxpr.names if paths is None else paths
    key = None if how.placement is None else ("lowered", name, platform, how.form(), tuple(paths), tuple(results))
    found = None if key is None else jaxpr.derived.get(key)
    if found is None:
        found = _lower(jaxpr, name, how, platform, paths, results)
        if key is not None and not (found.callbacks or found.kept or found.checks or _names_devices(jaxpr)):
            found = jaxpr.derived.setdefault(key, found)
    return found


def _names_devices(jaxpr: Jaxpr) -> bool:
    """Whether a program has a mesh with devices in it."""
    return any(
        isinstance(eqn.params.get("mesh"), Mesh) or any(map(_names_devices, inner_jaxprs(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _lower(
    jaxpr: Jaxpr, name: str, how: Compilation, platform: str, paths: Sequence[str], results: Sequence[str]
) -> Lowered:
    started = time.perf_counter()
    checks = None
    if CHECK in jaxpr.effects:
        jaxpr, *checks = hooks.discharge(jaxpr)
        how = how.with_results(len(checks[0]))
    if jaxpr.has_keys:
        jaxpr = hooks.physicalize(jaxpr)
    jaxpr = with_tokens(jaxpr)
    devices: Sequence[Any] = ()
    ins: Sequence[Any] = ()
    outs: Sequence[Any] = ()
    if how.mesh is not None:
        ins, outs = [[None if p is None else p.sharding for p in ps] for ps in (how.in_placements, how.out_placements)]
        devices = how.placement.devices
    lowered = lower(jaxpr, name or "main", how.donated, devices, ins, outs, platform, paths, results)
    if events.wanted():
        events.emit(events.Lowered(name, len(lowered.text), time.perf_counter() - started))
    return lowered if checks is None else lowered._replace(checks=tuple(checks))


def _platform(how: Compilation) -> str:
    """Platform of the devices; asked for without starting a backend where only a CPU can be had."""
    if how.placement is not None:
        return client.platform_of(how.placement.devices[0])
    return "cpu" if client.is_cpu_default() else client.backend().name


def warn_of_unusable(in_avals: Sequence[Any], out_avals: Sequence[Any], donated: Sequence[bool]) -> None:
    """Warn of donated inputs whose memory no output can take over: each output like an input takes one.

    Parameters
    ----------
    in_avals, out_avals : sequence of aval
    donated : sequence of bool
    """
    free = list(out_avals)
    useless = []
    for aval, given in zip(in_avals, donated, strict=True):
        if not given:
            continue
        heir = next((a for a in free if a.dtype == aval.dtype and _alike(aval, a)), None)
        if heir is None:
            useless.append(aval)
        else:
            free.remove(heir)
    if useless:
        text = ", ".join(map(repr, useless))
        warnings.warn(
            f"Some donated buffers were not usable: {text}. No output has their shape and dtype.", stacklevel=2
        )


def _alike(given: Any, out: Any) -> bool:
    """Whether the shapes are one, and the pieces on a device of one size as far as types tell."""
    if given.shape != out.shape or given.spread is None or out.spread is None:
        return bool(given.shape == out.shape)
    return math.prod(given.spread.piece(given.shape)) == math.prod(out.spread.piece(out.shape))


def compile_jaxpr(jaxpr: Jaxpr, name: str, how: Compilation = DEFAULT) -> Any:
    """The executable of a jaxpr whose constants are inputs; remembered."""
    key = ("executable", how.key)
    found = jaxpr.derived.get(key)
    if found is None:
        found = compile_lowered(lower_jaxpr(jaxpr, name, how), name, jaxpr.out_avals, how)
        found = jaxpr.derived.setdefault(key, found)
    return found


def compile_lowered(lowered: Lowered, name: str, out_avals: Sequence[Any], how: Compilation = DEFAULT) -> Any:
    """The executable of a lowered program."""
    lowered = lowered._replace(text=strip_paths(lowered.text))
    # Host functions and messages of checks are part of the program: never shared by text.
    if lowered.callbacks or lowered.checks or lowered.kept or not config.cache:
        return _compile(lowered, name, out_avals, how)
    digest = hashlib.sha256(strip_locations(lowered.text).encode()).digest()
    key = (digest, how.key)
    found = _MEMORY.get(key)
    if found is not None:
        if events.wanted():
            events.emit(events.CacheHit(name, "memory"))
        return found
    with _LOCK:
        lock = _LOCKS.setdefault(key, threading.Lock())
    with lock:  # two threads that want the same program compile it once; different programs compile side by side
        found = _MEMORY.get(key)
        if found is None:
            found = _compile(lowered, name, out_avals, how)
            if len(_MEMORY) >= _LIMIT:
                _MEMORY.clear()
            _MEMORY[key] = found
    _LOCKS.pop(key, None)
    return found


def _compile(lowered: Lowered, name: str, out_avals: Sequence[Any], how: Compilation) -> Any:
    placement = how.placement
    more, raise_for = lowered.checks or ((), None)
    if more:
        how = how.with_results(len(more))
    made = runtime_executable.compile_text(
        lowered.text, name=name, out_avals=(*out_avals, *more), devices=None if placement is None else placement.devices,
        out_placements=how.out_placements or None, donate=[i for i, d in enumerate(how.donated) if d],
        options=dict(how.options), callbacks=lowered.callbacks, mesh=how.mesh, known=how.in_placements,
        use_cache=not lowered.kept, checks=None if raise_for is None else (len(more), raise_for),
    )  # fmt: skip
    _tidy()
    return made


_TIDIED: list[bool] = []


def _tidy() -> None:
    """Let Python's cycle collector have its turn now.

    What was recorded and imported for a program stays. Python would look through it all while a later program is recorded,
    which takes as long as the recording; beside a compilation it is nothing. The whole heap is looked through once, after
    the first, as most of what is imported is there by then; later only what is young.
    """
    if gc.isenabled():
        if _TIDIED:
            gc.collect(1)
        else:
            _TIDIED.append(True)
            gc.collect()


def clear() -> None:
    """Forget the executables of this process."""
    _MEMORY.clear()


def forget(jaxprs: Sequence[Jaxpr]) -> None:
    """Forget the executables of some programs."""
    gone = {id(made) for jaxpr in jaxprs for key, made in jaxpr.derived.items() if key[0] == "executable"}
    for jaxpr in jaxprs:
        jaxpr.derived.clear()
    for key in [key for key, made in list(_MEMORY.items()) if id(made) in gone]:
        _MEMORY.pop(key, None)
