# SPDX-License-Identifier: Apache-2.0
"""What happens inside, as typed events for whoever listens.

A place that has something to tell writes `if events.listening: events.emit(events.Compiled(...))`: nothing is made, and
one global is read, while nobody listens. The settings `log_compiles` and `explain_cache_misses` listen too, and write warnings
to the logger "purax"; at level DEBUG that logger is told of everything.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from purax import config
from purax.lazy import lazy

__all__ = [
    "CacheHit",
    "CacheMiss",
    "Compiled",
    "Event",
    "Lowered",
    "Traced",
    "Transferred",
    "emit",
    "listen",
    "subscribe",
    "wanted",
]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True)
class Traced(Event):
    """A function was traced to a jaxpr."""

    name: str
    equations: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Lowered(Event):
    """A jaxpr was turned into StableHLO text."""

    name: str
    characters: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Compiled(Event):
    """A program was compiled by XLA; programs that came from disk give a `CacheHit` instead."""

    name: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CacheHit(Event):
    """A compiled program was found; `where` is "memory" or "disk"."""

    name: str
    where: str = "disk"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CacheMiss(Event):
    """A call found no compiled program; `part` names what differs from the nearest key, `old` and `new` its two values.

    Where `old` is empty, `new` describes the difference.
    """

    name: str
    part: str = "function"
    old: Any = None
    new: Any = None
    where: str = "memory"


@dataclass(frozen=True, slots=True)
class Transferred(Event):
    """Bytes moved; `direction` is "host to device", "device to host" or "device to device"."""

    bytes: int
    direction: str
    device: str = ""


Listener = Callable[[Event], None]

listening = False
_listeners: tuple[Listener, ...] = ()
_logs_wanted = 0
_lock = Lock()


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` with each event from now on, in every thread.

    Parameters
    ----------
    listener : callable
        Takes one event. What it raises reaches the code that caused the event.

    Returns
    -------
    callable
        Call it to stop.

    Examples
    --------
    >>> seen = []
    >>> stop = subscribe(seen.append)
    >>> emit(Compiled("f"))
    >>> stop()
    >>> seen[0].name
    'f'
    """
    # A wrapper of its own per subscription, so that stopping twice, or one of two equal listeners, does the right thing.
    entry = _Subscription(listener)
    with _lock:
        _publish((*_listeners, entry))
    return entry.stop


class _Subscription:
    __slots__ = ("listener",)

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def __call__(self, event: Event) -> None:
        self.listener(event)

    def stop(self) -> None:
        with _lock:
            _publish(tuple(entry for entry in _listeners if entry is not self))


def _publish(listeners: tuple[Listener, ...]) -> None:
    global _listeners, listening
    _listeners = listeners
    listening = bool(listeners) or _logs_wanted > 0


@contextmanager
def listen(listener: Listener | None = None) -> Iterator[list[Event]]:
    """Collect the events of a `with` block, and pass each to `listener` if one is given.

    Parameters
    ----------
    listener : callable, optional
        Takes one event.

    Yields
    ------
    list of Event
        Grows while the block runs.

    Examples
    --------
    >>> with listen() as seen:
    ...     emit(Traced("f"))
    >>> seen
    [Traced(name='f', equations=0, seconds=0.0)]
    """
    seen: list[Event] = []
    stops = [subscribe(seen.append)]
    if listener is not None:
        stops.append(subscribe(listener))
    try:
        yield seen
    finally:
        for stop in stops:
            stop()


def emit(event: Event) -> None:
    """Hand an event to all listeners."""
    for listener in _listeners:
        listener(event)
    if _logs_wanted or _debugging():
        _log(event)


def wanted() -> bool:
    """Whether anybody listens, the logger "purax" at level DEBUG included; for places that take milliseconds anyway."""
    return listening or _debugging()


def _debugging() -> bool:
    return "logging" in sys.modules and logging.getLogger("purax").isEnabledFor(logging.DEBUG)


# ---- logging

logging = lazy("logging")


def _want_logs(step: int) -> None:
    global _logs_wanted
    with _lock:
        _logs_wanted += step
        _publish(_listeners)


def _log(event: Event) -> None:
    # The flags may be on in another thread only.
    settings = config.current()
    text = None
    match event:
        case Traced(name, equations, seconds):
            text = f"Finished tracing {name} for jit: {equations} equations in {seconds:.6f} s"
        case Lowered(name, characters, seconds):
            text = f"Compiling jit({name}): lowered to {characters} characters of StableHLO in {seconds:.6f} s"
        case Compiled(name, seconds):
            text = f"Finished XLA compilation of jit({name}) in {seconds:.6f} s"
        case CacheHit(name, where, seconds):
            text = f"Finished XLA compilation of jit({name}): found in {where} in {seconds:.6f} s"
    flag = settings.log_compiles
    if isinstance(event, CacheMiss):
        # That a program is not on disk explains nothing: its trace, if there was one, has been explained.
        flag = settings.explain_cache_misses and event.part != "program"
        kind = "TRACING CACHE MISS" if event.where == "memory" else "COMPILATION CACHE MISS"
        change = f"now {event.new} and before {event.old}" if event.old else f"{event.new}"
        text = f"{kind} of {event.name}: {event.part}: {change} ({event.where})"
    if text is not None:
        logging.getLogger("purax").log(logging.WARNING if flag else logging.DEBUG, text)


config.watch("log_compiles", _want_logs)
config.watch("explain_cache_misses", _want_logs)
