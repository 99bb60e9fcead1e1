# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: settings come back, no trace is left behind, what is compiled may come from a folder."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from purax import config
from purax.core import trace


@pytest.fixture(autouse=True)
def _settings_come_back() -> Iterator[None]:
    """Undo what a test changed in the settings of the process, and fail it if it left a trace current."""
    before = config.values()
    yield
    for name, value in before.items():
        if getattr(config, name) != value:
            config.update(name, value)
    assert trace.current.get() is None, "the test left a trace current"


@pytest.fixture
def no_cache() -> None:
    """Compile each program anew, for tests that look at what is compiled."""
    config.update("cache", False)


@pytest.fixture
def cache_folder(tmp_path: Path) -> Path:
    """Turn the disk cache on, in a folder of the test's own."""
    config.update("cache_dir", str(tmp_path / "cache"))
    config.update("cache", True)
    return tmp_path / "cache"


@pytest.fixture
def unused_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
