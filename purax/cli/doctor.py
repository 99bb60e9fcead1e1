# SPDX-License-Identifier: Apache-2.0
"""`purax doctor`: what is in use, and what is missing."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from purax import __version__, config
from purax.cli.cache import describe
from purax.errors import PuraxError
from purax.runtime import cache, client

__all__ = ["run"]

_NEEDED = ("jaxlib", "numpy", "scipy", "ml_dtypes", "opt_einsum")
_OPTIONAL = {
    "safetensors": ("saving and loading parameters", "pip install 'purax[train]'"),
    "matplotlib": ("loss curves", "pip install 'purax[train]'"),
}
_ACCELERATORS = {
    "cuda": ("jax-cuda12-pjrt", "/dev/nvidiactl", "an NVIDIA GPU", "pip install 'purax[cuda]'"),
    "tpu": ("libtpu", "/dev/accel0", "a TPU", "pip install 'purax[tpu]'"),
}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _line(name: str, text: str) -> None:
    print(f"{name:<12} {text}")


def _devices() -> bool:
    try:
        backends = client.backends()
        default = client.default_backend()
    except PuraxError as error:
        _line("devices", f"cannot be started: {error}")
        return False
    for name, backend in backends.items():
        kinds = sorted({str(device.device_kind) for device in backend.devices})
        _line("devices", f"{name}: {len(backend.devices)} ({', '.join(kinds)}){', default' if name == default else ''}")
    return True


def _missing() -> list[str]:
    advice = [
        f"{package} is missing, which purax needs: pip install {package}"
        for package in _NEEDED
        if not _version(package)
    ]
    advice += [
        f"{package} is not installed ({purpose}): {command}"
        for package, (purpose, command) in _OPTIONAL.items()
        if not _version(package)
    ]
    advice += [
        f"{thing} seems to be there, but its plugin is not installed: {command}"
        for package, node, thing, command in _ACCELERATORS.values()
        if os.path.exists(node) and not _version(package)
    ]
    return advice


def run(options: argparse.Namespace) -> int:
    """Print the report.

    Parameters
    ----------
    options : argparse.Namespace
        Of `purax doctor`; it has none.

    Returns
    -------
    int
        0 if purax can run, else 1.
    """
    del options
    _line("purax", f"{__version__} ({Path(__file__).parents[1]})")
    _line("python", f"{platform.python_version()} ({sys.executable})")
    _line("system", f"{platform.platform()}, {os.cpu_count()} processors")
    for package in (*_NEEDED, *_OPTIONAL):
        _line(package, _version(package) or "missing")
    works = _devices()
    _line("cache", describe(cache.info()))
    changed = {name: value for name, value in sorted(os.environ.items()) if name.startswith("PURAX_")}
    for name, value in changed.items():
        _line("setting", f"{name}={value}")
    _line("64 bits", "on" if config.enable_x64 else "off (PURAX_ENABLE_X64=1 turns them on)")
    advice = _missing()
    for sentence in advice:
        _line("advice", sentence)
    if works and not advice:
        print("nothing is missing")
    return 0 if works else 1
