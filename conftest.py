# SPDX-License-Identifier: Apache-2.0
"""What holds for tests and doctests alike. The environment is set here, before anything imports purax."""

import os
from pathlib import Path
from typing import Any

import pytest

os.environ["PURAX_PLATFORMS"] = os.environ.get("PURAX_TEST_PLATFORMS", "cpu")
os.environ["PURAX_NUM_CPU_DEVICES"] = "8"
# Programs are kept from run to run: a test waits for the compiler only if its program is new.
os.environ["PURAX_CACHE"] = "on"
os.environ["PURAX_CACHE_DIR"] = str(Path(__file__).parent / ".purax_cache")
os.environ["PURAX_ENABLE_CHECKS"] = "on"
# Pictures are drawn into files only.
os.environ.setdefault("MPLBACKEND", "agg")

# It counts events from its import on.
collect_ignore = ["purax/_test_events.py"]


@pytest.fixture(autouse=True)
def _doctest_names(request: pytest.FixtureRequest) -> None:
    """Give doctests the three names that every reader knows."""
    if isinstance(request.node, pytest.Item) and type(request.node).__name__ == "DoctestItem":
        # Only now: purax reads the environment when it is imported.
        import numpy as np

        import purax

        names: dict[str, Any] = request.getfixturevalue("doctest_namespace")
        names.update(np=np, purax=purax, pnp=purax.numpy)
