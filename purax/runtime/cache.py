# SPDX-License-Identifier: Apache-2.0
"""Compiled programs on disk: one file per program, found again by a digest of all that shaped it.

Files are written to a temporary name and renamed, so readers see whole files only; a checksum over digest and program finds
damaged ones and those of another program, which are removed and count as absent. Any number of processes may share a folder. When it outgrows `config.cache_max_size`, the files
that were not used for the longest time go.

Loading a program runs what it holds, so the folder is made for its owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import pathlib
import platform
import re
import sys
import threading
from typing import NamedTuple

from purax import config, events
from purax.lazy import lazy

__all__ = [
    "CacheInfo", "clear", "directory", "enabled", "info", "key", "load", "processor_features", "store", "strip_locations",
]  # fmt: skip

_jaxlib = lazy("purax.runtime._jaxlib")

_MAGIC = b"purax executable 2\n"
_SUFFIX = ".purax"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_KEEP = 0.8  # of the allowed size, after old files have gone
_lock = threading.Lock()
_counter = itertools.count()
_sizes: dict[str, int] = {}  # bytes in a folder, as far as this process knows


class CacheInfo(NamedTuple):
    """What the cache holds."""

    directory: str
    enabled: bool
    files: int
    bytes: int
    max_bytes: int


def enabled() -> bool:
    """Whether programs are kept on disk."""
    return bool(config.cache)


def directory() -> pathlib.Path:
    """The folder of the cache: `config.cache_dir`, else `purax` in the user's cache folder."""
    chosen = config.cache_dir
    if chosen:
        return pathlib.Path(chosen)
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library" / "Caches" / "purax"
    root = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else os.environ.get("XDG_CACHE_HOME")
    return pathlib.Path(root) / "purax" if root else pathlib.Path.home() / ".cache" / "purax"


# ---- keys

_LOCATION = re.compile(
    r'\s*loc\((?:"(?:[^"\\]|\\.)*"|[^()"]|\((?:"(?:[^"\\]|\\.)*"|[^()"]|\((?:"(?:[^"\\]|\\.)*"|[^()"])*\))*\))*\)'
)
_LOCATION_LINE = re.compile(r"^#l(?:oc)?\d* = .*\n?", re.MULTILINE)


def strip_locations(text: str) -> str:
    """The program without the source lines of its operations, which change nothing of what it computes."""
    if "loc(" not in text:
        return text
    return _LOCATION.sub("", _LOCATION_LINE.sub("", text))


def key(text: str, *parts: object) -> str:
    """The digest of a program and of all that shapes how it is compiled.

    Parameters
    ----------
    text : str
        StableHLO.
    *parts : object
        Compile options and devices, as values whose `repr` tells them apart.

    Returns
    -------
    str
    """
    digest = hashlib.sha256()
    shaping = (_jaxlib.VERSION, _processor(), os.environ.get("XLA_FLAGS"), config.threads, os.environ.get("NPROC"))
    digest.update(strip_locations(text).encode())
    digest.update(repr((*shaping, *parts)).encode())
    return digest.hexdigest()


def _processor() -> str:
    """The features of the processor: programs are compiled for exactly these."""
    if not _processors:
        _processors.append(f"{platform.machine()} {platform.processor()} {os.cpu_count()} {_features()}")
    return _processors[0]


def _features() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return ""


def processor_features() -> list[str]:
    """The kind of processor and its features as the system tells them, by name."""
    return [platform.machine(), *sorted(_features().partition(":")[2].split())]


_processors: list[str] = []


# ---- files


def _path(digest: str) -> pathlib.Path:
    return directory() / f"{digest}{_SUFFIX}"


def _seal(digest: str, payload: bytes) -> bytes:
    """What a file begins with: it belongs to this program under this digest, and to nothing else."""
    return _MAGIC + hashlib.sha256(digest.encode() + b"\n" + payload).digest()


def load(digest: str) -> bytes | None:
    """The program kept under a digest, or None; a file that is damaged, or was made for another digest, is removed."""
    path = _path(digest)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    payload = content[_HEADER:]
    if content[:_HEADER] != _seal(digest, payload):
        remove(digest)
        if events.listening:
            events.emit(events.CacheMiss(path.name, "damaged file", where="disk"))
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return payload


def remove(digest: str) -> None:
    """Remove the program kept under a digest, if there is one."""
    with contextlib.suppress(OSError):
        _path(digest).unlink()


def store(digest: str, payload: bytes) -> bool:
    """Keep a program, the bytes `payload`, under a digest.

    Returns
    -------
    bool
        False when the folder cannot be written to, or the program alone is larger than the cache may be.
    """
    folder, limit = directory(), int(config.cache_max_size)
    if len(payload) + _HEADER > limit:
        return False
    temporary = folder / f".{os.getpid()}-{threading.get_ident()}-{next(_counter)}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.write_bytes(_seal(digest, payload) + payload)
        os.replace(temporary, _path(digest))
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        return False
    _account(folder, len(payload) + _HEADER, limit)
    return True


def _account(folder: pathlib.Path, added: int, limit: int) -> None:
    """Count the bytes written, and make room when they are too many. The folder is read only then and the first time."""
    name = str(folder)
    with _lock:
        known = _sizes.get(name)
        size = sum(entry[1] for entry in _entries(folder)) if known is None else known + added
        if size > limit:
            size = _evict(folder, int(limit * _KEEP))
        _sizes[name] = size


def _evict(folder: pathlib.Path, target: int) -> int:
    entries = sorted(_entries(folder))
    size = sum(entry[1] for entry in entries)
    for _, length, path in entries[:-1]:
        if size <= target:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        size -= length
    return size


def _entries(folder: pathlib.Path) -> list[tuple[float, int, str]]:
    """(time of last use, bytes, path) of each file; files that vanish meanwhile are left out."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):
                if file.name.endswith((_SUFFIX, ".tmp")):
                    state = file.stat()
                    found.append((state.st_mtime, state.st_size, file.path))
    return found


def clear() -> int:
    """Remove every kept program; returns how many there were."""
    entries = _entries(directory())
    for _, _, path in entries:
        with contextlib.suppress(OSError):
            os.unlink(path)
    with _lock:
        _sizes.pop(str(directory()), None)
    return len(entries)


def info() -> CacheInfo:
    """Where the cache is, whether it is on, and how much it holds."""
    entries = _entries(directory())
    size = sum(entry[1] for entry in entries)
    return CacheInfo(str(directory()), enabled(), len(entries), size, int(config.cache_max_size))
