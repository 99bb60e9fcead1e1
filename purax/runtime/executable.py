# SPDX-License-Identifier: Apache-2.0
"""Executables: StableHLO text in, something that runs on buffers out."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from purax import errors, events
from purax.core.aval import ShapedArray
from purax.lazy import lazy
from purax.runtime import buffers, cache, client
from purax.runtime.array import Array, wrap_placed
from purax.runtime.callback import HostFunction
from purax.runtime.tensor import wider
from purax.sharding import Mesh, NamedSharding, PartitionSpec, Placement, placement_of
from purax.sharding.named import from_tiles

__all__ = ["Executable", "compile_text", "load_serialized", "widen"]

_jaxlib = lazy("purax.runtime._jaxlib")

# Convolutions by XLA's kernel library are slower than by its own code on what training does with them: 39 against 24 ms for a
# step of three layers on 32x32 images, 3.3 against 3.1 ms on 8x8 (minimum of 25, interleaved, two cores). Dots and reductions
# of the library win and stay.
_CPU_FLAGS: dict[str, Any] = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
}

_IN_FLIGHT = 16
"""How many runs over several CPU devices may be under way at once; hundreds can block all threads in half-met collectives."""


class Executable:
    """A compiled program on its devices.

    Attributes
    ----------
    run : callable
        Takes the list of raw buffers, returns the list of raw result buffers. Runs are asynchronous.
    out_avals : tuple of ShapedArray
    out_placements : tuple of Placement or None
        None is the default device.
    devices : tuple of Device
    donate : tuple of int
        The arguments whose memory the results may take over; given buffers are gone after a run.
    """

    __slots__ = ("_loaded", "_raw", "devices", "donate", "name", "out_avals", "out_placements", "run")
    run: Callable[[Sequence[Any]], list[Any]]

    def __init__(
        self,
        raw: Any,
        name: str,
        devices: tuple[Any, ...],
        out_avals: tuple[ShapedArray, ...],
        out_placements: tuple[Placement | None, ...],
        donate: tuple[int, ...],
        loaded: bytes | None = None,
        callbacks: Sequence[Any] = (),
    ) -> None:
        self._raw, self.name, self.devices, self.donate = raw, name, devices, donate
        self._loaded = loaded
        self.out_avals, self.out_placements = out_avals, out_placements
        handlers = [_handler(aval, place) for aval, place in zip(out_avals, out_placements, strict=True)]
        if callbacks:
            self.run = _waited_for(raw.execute_sharded, handlers, callbacks, len(devices))
        elif len(devices) > 1 and devices[0].platform == "cpu" and out_avals:
            smallest = min(range(len(out_avals)), key=lambda index: out_avals[index].size)
            self.run = _throttled(raw.execute_sharded, handlers, smallest)
        else:
            self.run = _direct(raw.execute_sharded, handlers)

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on arrays that lie on the devices of the program; donated ones are gone afterwards, unless no result has their size.

        Raises
        ------
        DonationError
            An array is donated and given a second time.
        """
        given = [array.buffer for array in arrays]
        for index in self.donate:
            if sum(buffer is given[index] for buffer in given) > 1:
                raise errors.DonationError(
                    errors.explain(
                        f"{self.name or 'a compiled function'} got one array twice, and argument {index} is donated.",
                        "Its memory may be overwritten while the other argument is read.",
                        "pass a copy (x.copy()) as one of the two.",
                    )
                )
        results = self.run(given)
        for index in self.donate:
            # What is of use to no result, stays. Of the others, the compiler may leave some alone; that is not to be relied upon.
            size = _bytes(arrays[index].aval)
            if any(_bytes(aval) == size for aval in self.out_avals) or given[index].is_deleted():
                arrays[index].donate(self.name or "a compiled function")
        return [
            wrap_placed(aval, buffer, place)
            for aval, buffer, place in zip(self.out_avals, results, self.out_placements, strict=True)
        ]

    def keep_back(self, count: int, look: Callable[..., None]) -> None:
        """Let `look` have the last results of each run, as functions that read them; the caller gets the others."""
        run, kept = self.run, len(self.out_avals) - count
        forms = list(zip(self.out_avals[kept:], self.out_placements[kept:], strict=True))
        self.out_avals, self.out_placements = self.out_avals[:kept], self.out_placements[:kept]

        def looked_at(given: Sequence[Any]) -> list[Any]:
            results = run(given)
            look(
                [
                    lambda a=a, p=p, b=b: buffers.read_raw(b, a, p)
                    for (a, p), b in zip(forms, results[kept:], strict=True)
                ]
            )
            return results[:kept]

        self.run = looked_at

    def as_text(self) -> str:
        """The optimised program, in XLA's HLO notation."""
        return "\n\n".join(module.to_string() for module in self._raw.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """The compiler's estimate of work: `flops`, `bytes accessed`, ..."""
        return dict(self._raw.cost_analysis())

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results, temporaries and code, as attributes `argument_size_in_bytes`, ..."""
        return self._raw.get_compiled_memory_stats()

    def serialize(self) -> bytes:
        """The program as bytes that `load_serialized` takes on an equal machine with the same jaxlib."""
        # A loaded program that is saved again would lack its functions: what it was loaded from is kept.
        return self._loaded or bytes(self._raw.serialize())


def _bytes(aval: ShapedArray) -> int:
    held = buffers.physical(aval)
    return int(held.size * held.dtype.itemsize)


def _handler(aval: ShapedArray, placement: Placement | None) -> Any:
    held = buffers.physical(aval)
    form = buffers.default_form() if placement is None else buffers.compiled_form(placement, held.ndim)
    return _jaxlib.result_handler(held, form[0])


def _direct(execute: Any, handlers: list[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    raw_error = _jaxlib.RawError

    def run(given: Sequence[Any]) -> list[Any]:
        try:
            return execute(given).consume_with_handlers(handlers)
        except raw_error as error:
            failed = _failed(error, given)
            raise failed from failed.__cause__

    def stop() -> None:
        nonlocal execute
        execute = client.refuse_fork

    _stops[run] = stop
    return run


# Whoever holds a `run` calls it without a question, so a forked child changes what it calls.
_stops: weakref.WeakKeyDictionary[Callable[[Sequence[Any]], list[Any]], Callable[[], None]] = (
    weakref.WeakKeyDictionary()
)


def _stop_all() -> None:
    for stop in list(_stops.values()):
        stop()


client.on_fork.append(_stop_all)


_under_way: deque[Any] = deque()


def _throttled(execute: Any, handlers: list[Any], watched: int) -> Callable[[Sequence[Any]], list[Any]]:
    raw_error = _jaxlib.RawError

    def run(given: Sequence[Any]) -> list[Any]:
        try:
            if _under_way:
                _forget_finished()
            results: list[Any] = execute(given).consume_with_handlers(handlers)
        except raw_error as error:
            failed = _failed(error, given)
            raise failed from failed.__cause__
        _under_way.append(results[watched])
        return results

    def stop() -> None:
        nonlocal execute
        execute = client.refuse_fork
        _under_way.clear()

    _stops[run] = stop
    return run


def _forget_finished() -> None:
    """Let go of runs that have finished, so that their memory can be used again; wait where too many are under way."""
    try:
        while not _under_way[0].is_deleted() and _under_way[0].is_ready():  # of a donated result nothing is known
            _under_way.popleft()
    except (IndexError, _jaxlib.RawError):  # none is left, another thread was faster, or a run failed
        pass
    if len(_under_way) >= _IN_FLIGHT:
        _wait_for_oldest()


def _wait_for_oldest() -> None:
    try:
        oldest = _under_way.popleft()
        if oldest.is_deleted():  # donated to a later run: wait for the newest instead, and with it for all
            oldest = _under_way.pop()
            _under_way.clear()
    except IndexError:  # another thread was faster
        return
    if not oldest.is_deleted():
        oldest.block_until_ready()


def _waited_for(
    execute: Any, handlers: list[Any], callbacks: Sequence[Any], devices: int
) -> Callable[[Sequence[Any]], list[Any]]:
    """Run a program that calls Python: what its functions do has happened, and what they raised is raised, when the run returns.

    So effects of programs that follow each other keep their order, and programs whose functions run programs do not pile up.
    """
    raw_error = _jaxlib.RawError
    functions = [function for function in callbacks if isinstance(function, HostFunction)]
    for function in functions:
        function.survives = devices > 1

    def run(given: Sequence[Any]) -> list[Any]:
        try:
            started = execute(given, with_tokens=True)
            token = started.consume_token()
            results: list[Any] = started.consume_with_handlers(handlers)
            token.block_until_ready()
        except raw_error as error:
            failed = _failed(error, given)
            raise failed from failed.__cause__
        for function in functions:
            function.raise_failure()
        return results

    return run


def _failed(error: Exception, given: Sequence[Any]) -> BaseException:
    if any(buffer.is_deleted() for buffer in given):
        return errors.DeletedArrayError(
            errors.explain(
                "a compiled function got an array that was deleted or donated before.",
                fix="use the result of the computation that it was donated to.",
            )
        )
    return _jaxlib.clean_error(error)


# ---- compiling


def compile_text(
    text: str,
    *,
    out_avals: Sequence[ShapedArray],
    devices: Sequence[Any] | None = None,
    out_placements: Sequence[Placement | None] | None = None,
    donate: Sequence[int] = (),
    options: Mapping[str, Any] | None = None,
    callbacks: Sequence[Callable[..., Any]] = (),
    name: str = "",
    use_cache: bool = True,
    mesh: Mesh | None = None,
    known: Sequence[Placement | None] = (),
    checks: tuple[int, Callable[..., None]] | None = None,
) -> Executable:
    """Compile StableHLO text, or find the result of an earlier time on disk.

    Parameters
    ----------
    text : str
        A module whose public function is `main`. With several devices it is one program split by its Shardy annotations.
    out_avals : sequence of ShapedArray
        Of the results, whole.
    devices : sequence of Device, optional
        The default device when left out.
    out_placements : sequence of Placement or None, optional
        Of the results; by default they lie on the one device, or whole on each of several.
    donate : sequence of int
        Arguments that the text marks as donated.
    options : mapping, optional
        XLA flags of this program.
    callbacks : sequence of callable
        Python functions that the text calls by their index.
    name : str
        For events and messages.
    use_cache : bool
        False neither reads nor writes the disk.
    mesh : Mesh, optional
        Of an SPMD program: results without a placement lie as the partitioner chose, told in the axes of this mesh.
    known : sequence of Placement or None
        Placements (of the arguments) that are taken where they say the same.
    checks : (int, callable), optional
        The last results, so many, are not for the caller: after each run the callable gets functions that read them, and raises
        if they tell of a failure.

    Returns
    -------
    Executable

    Raises
    ------
    JaxRuntimeError
        The compiler refuses the program.
    """
    default = devices is None
    devices = buffers.default_form()[1] if devices is None else tuple(devices)
    if out_placements is None:
        place = None if default or mesh is not None else _whole(devices)
        out_placements = (place,) * len(out_avals)
    use_cache = use_cache and cache.enabled()
    try:
        raw, loaded = _compile(text, devices, _flags(devices[0], options), callbacks, name, use_cache)
    except errors.JaxRuntimeError as error:
        unknown = [flag for flag in _CPU_FLAGS if flag in str(error)]
        if not unknown:
            raise
        for flag in unknown:  # this version of XLA lacks it
            _CPU_FLAGS.pop(flag, None)
        raw, loaded = _compile(text, devices, _flags(devices[0], options), callbacks, name, use_cache)
    if mesh is not None:
        out_placements = _chosen(raw, mesh, out_avals, out_placements, known)
    made = Executable(raw, name, devices, tuple(out_avals), tuple(out_placements), tuple(donate), loaded, callbacks)
    if checks is not None:
        made.keep_back(*checks)
    return made


def _chosen(
    raw: Any, mesh: Mesh, out_avals: Sequence[ShapedArray], wanted: Sequence[Placement | None],
    known: Sequence[Placement | None],
) -> list[Placement]:  # fmt: skip
    """Placements of the results: those that were asked for, and else what the executable tells."""
    tiles = (_jaxlib.output_tiles(raw) if out_avals else None) or [None] * len(out_avals)
    usual = list(dict.fromkeys([place for place in known if place is not None]))

    def chosen(aval: ShapedArray, found: Any) -> Placement:
        sharding = from_tiles(mesh, aval.ndim, found)
        if aval.spread is not None:  # types name every axis
            parts = (*sharding.spec, *[None] * (aval.ndim - len(sharding.spec)))
            sharding = sharding.update(spec=PartitionSpec(*parts))
        for place in usual:
            spec = place.sharding.spec if isinstance(place.sharding, NamedSharding) else ()
            if len(spec) <= aval.ndim and place.sharding.is_equivalent_to(sharding, aval.ndim):
                return place
        return placement_of(sharding)

    return [
        chosen(aval, found) if place is None or _is_open(place) else place
        for aval, place, found in zip(out_avals, wanted, tiles, strict=True)
    ]


def _is_open(placement: Placement) -> bool:
    """Whether part of it is left to the partitioner."""
    return isinstance(placement.sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in tuple(
        placement.sharding.spec
    )


def load_serialized(
    blob: bytes,
    *,
    out_avals: Sequence[ShapedArray],
    devices: Sequence[Any] | None = None,
    out_placements: Sequence[Placement | None] | None = None,
    donate: Sequence[int] = (),
    callbacks: Sequence[Callable[..., Any]] = (),
    name: str = "",
) -> Executable:
    """Load what `Executable.serialize` gave; the other parameters are those of `compile_text`.

    Parameters
    ----------
    blob : bytes
    out_avals, devices, out_placements, donate, callbacks, name
        As in `compile_text`.

    Returns
    -------
    Executable

    Raises
    ------
    JaxRuntimeError
        The bytes are damaged, or come from another version or processor.
    """
    default = devices is None
    devices = buffers.default_form()[1] if devices is None else tuple(devices)
    if out_placements is None:
        out_placements = (None if default else _whole(devices),) * len(out_avals)
    raw = _load(blob, devices, _flags(devices[0], None), callbacks)
    return Executable(raw, name, devices, tuple(out_avals), tuple(out_placements), tuple(donate), blob, callbacks)


_widening: dict[Any, Executable] = {}


def widen(buffer: Any, held: ShapedArray, placement: Placement | None) -> tuple[Any, ShapedArray]:
    """A buffer whose elements of less than a byte are converted to a dtype of whole bytes, and its aval.

    Parameters
    ----------
    buffer : raw buffer
    held : ShapedArray
    placement : Placement or None

    Returns
    -------
    (raw buffer, ShapedArray)
    """
    key = (held, placement)
    program = _widening.get(key)
    if program is None:
        aval = held.update(dtype=wider(held.dtype))
        mesh, spread = "", ""
        if placement is not None and len(placement.devices) > 1:
            sharding = cast(NamedSharding, placement.sharding)
            mesh = f"sdy.mesh @mesh = {sharding.mesh.sdy_text()}"
            spread = f"{{sdy.sharding = {sharding.sdy_text(held.ndim)}}}"
        text = f"""module @widen {{
  {mesh}
  func.func public @main(%x: {held.hlo} {spread}) -> ({aval.hlo} {spread}) {{
    %y = stablehlo.convert %x : ({held.hlo}) -> {aval.hlo}
    return %y : {aval.hlo}
  }}
}}"""
        devices = None if placement is None else placement.devices
        program = compile_text(text, out_avals=[aval], devices=devices, out_placements=[placement], name="widen")
        program = _widening.setdefault(key, program)
    return program.run([buffer])[0], program.out_avals[0]


def _whole(devices: tuple[Any, ...]) -> Placement:
    if len(devices) == 1:
        return buffers.single_placement(devices[0])
    mesh = Mesh(devices, ("devices",))
    return placement_of(NamedSharding(mesh, PartitionSpec()))


def _flags(device: Any, options: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    flags = {}
    if device.platform == "cpu":
        by_user = os.environ.get("XLA_FLAGS", "")
        flags = {flag: value for flag, value in _CPU_FLAGS.items() if flag not in by_user}
    flags.update(options or {})
    return sorted(flags.items())


def _compile(
    text: str,
    devices: tuple[Any, ...],
    flags: list[tuple[str, Any]],
    callbacks: Sequence[Any],
    name: str,
    use_cache: bool,
) -> tuple[Any, bytes | None]:
    """The program, and the bytes that it was loaded from, if it was."""
    if "lapack_" in text or "tridiagonal_solve_perturbed_ffi" in text:
        _jaxlib.ensure_lapack()
    if not use_cache:
        return _compile_now(text, devices, flags, callbacks, name), None
    ids = [(device.platform, device.device_kind, device.id) for device in devices]
    digest = cache.key(text, flags, ids, len(callbacks), client.device_count(client.platform_of(devices[0])))
    start = time.perf_counter()
    blob = cache.load(digest)
    if blob is not None:
        try:
            raw = _load(blob, devices, flags, callbacks)
        except errors.JaxRuntimeError:  # written by a build that calls itself the same and is not
            cache.remove(digest)
        else:
            if events.wanted():
                events.emit(events.CacheHit(name, "disk", time.perf_counter() - start))
            return raw, blob
    if events.wanted():
        events.emit(events.CacheMiss(name, "program", new=digest, where="disk"))
    raw = _compile_now(text, devices, flags, callbacks, name)
    try:
        blob = bytes(raw.serialize())
    except _jaxlib.RawError:  # programs that cannot be serialised are compiled each time
        return raw, None
    cache.store(digest, blob)
    return raw, None


def _load(blob: bytes, devices: tuple[Any, ...], flags: list[tuple[str, Any]], callbacks: Sequence[Any]) -> Any:
    client.check_fork()
    options = _jaxlib.compile_options(devices, 1, len(devices), flags)
    try:
        return _jaxlib.load_executable(devices[0].client, blob, devices, options, callbacks)
    except (_jaxlib.RawError, ValueError, RuntimeError) as error:
        raise _jaxlib.clean_error(error) from None


def _compile_now(
    text: str, devices: tuple[Any, ...], flags: list[tuple[str, Any]], callbacks: Sequence[Any], name: str
) -> Any:
    client.check_fork()
    options = _jaxlib.compile_options(devices, 1, len(devices), flags)
    start = time.perf_counter()
    try:
        raw = _jaxlib.compile_text(devices[0].client, text, devices, options, callbacks)
    except (_jaxlib.RawError, ValueError) as error:
        raise _jaxlib.clean_error(error) from None
    if events.wanted():
        events.emit(events.Compiled(name, time.perf_counter() - start))
    return raw


def hlo_proto(text: str) -> bytes:
    """StableHLO text as a serialized HLO module, before any optimization."""
    return _jaxlib.hlo_proto(text)


def unoptimized_hlo(text: str, debug_info: bool = False) -> str:
    """StableHLO text in XLA's HLO notation, as the compiler takes it up; `debug_info` adds names and source lines."""
    return _jaxlib.hlo_text(text, debug_info)
