# SPDX-License-Identifier: Apache-2.0
"""Measurements of whole processes: run a program several times by each side in turns, take the median of what it prints.

A program is Python text with `{name}` for `purax` or `jax`; it prints seconds in its last line. Ratios as in `_pair`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _pair import arguments, report

ROOT = Path(__file__).resolve().parent


def seconds(python: str, program: str, environment: dict[str, str]) -> float:
    """What one run prints."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [python, "-c", program], check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path, "PURAX_PLATFORMS": "cpu", "JAX_PLATFORMS": "cpu", **environment},
    )  # fmt: skip
    return float(done.stdout.splitlines()[-1])


def main(
    question: str, programs: dict[str, str], environment: Callable[[str, str], dict[str, str]] | None = None
) -> None:
    """Run the programs; `environment(side, case)` gives variables for each run."""
    options = arguments()
    sides: dict[str, str] = {"purax": sys.executable}
    if options.peer_python:
        sides["jax"] = options.peer_python
    chosen = [case for case in programs if not options.only or options.only in case]
    found: dict[str, dict[str, Any]] = {case: {side: [] for side in sides} for case in chosen}
    for _ in range(options.rounds):
        for case in chosen:
            for side, python in sides.items():
                variables = environment(side, case) if environment else {}
                found[case][side].append(seconds(python, programs[case].replace("{name}", side), variables))
    report(question, {case: {side: statistics.median(v) for side, v in row.items()} for case, row in found.items()})
