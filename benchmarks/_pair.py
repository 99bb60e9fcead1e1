# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: the two sides of a comparison, taken in turns, and the line of JSON that is printed.

A benchmark is a file with a question, `QUESTION`, and a function `cases(ns)` that returns `{name: function without arguments}`.
Both sides run the same code: `ns` holds the modules of purax or, in a child process by `--peer-python PATH`, those of JAX. The two
sides take turns case by case and round by round, so that both meet the same machine; of each, the median over rounds of the median
over repeats counts. A ratio below 1 means that purax is faster.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Cases = dict[str, Callable[[], Any]]


def namespace(implementation: str) -> SimpleNamespace:
    """The modules of one side: `ns.root`, `ns.np` (the NumPy API), `ns.lax`, `ns.nn`, `ns.random`, `ns.tree`, `ns.name`."""
    root = importlib.import_module(implementation)
    parts = {name: importlib.import_module(f"{implementation}.{name}") for name in ("lax", "nn", "random")}
    return SimpleNamespace(
        name=implementation, root=root, np=importlib.import_module(f"{implementation}.numpy"), tree=root.tree, **parts
    )


def median_seconds(run: Callable[[], Any], sync: Callable[[Any], Any], budget: float) -> float:
    """Seconds of one call: the median of samples of some milliseconds each, after a warm-up, within about `budget` seconds."""
    sync(run())
    started = time.perf_counter()
    sync(run())
    once = time.perf_counter() - started
    calls = max(1, int(0.005 / max(once, 1e-7)))
    samples = []
    end = time.perf_counter() + budget
    while len(samples) < 3 or time.perf_counter() < end:
        started = time.perf_counter()
        for _ in range(calls):
            out = run()
        sync(out)
        samples.append((time.perf_counter() - started) / calls)
    return statistics.median(samples)


class Side:
    """One implementation, measured case by case; here or in a process of its own."""

    def __init__(self, script: str, implementation: str, python: str) -> None:
        self.name = implementation
        environment = {
            **os.environ,
            "PURAX_CACHE": "off",
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            "JAX_PLATFORMS": "cpu",
        }
        environment["PURAX_PLATFORMS"] = "cpu"
        self.process = subprocess.Popen(
            [python, script, "--child", implementation],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, question: Any) -> Any:
        """One line of JSON there and back."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.name} ended")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(build: Callable[[SimpleNamespace], Cases], implementation: str) -> None:
    """The child: answers with the names of the cases, then with seconds for each case that is named."""
    ns = namespace(implementation)
    cases = build(ns)
    for line in sys.stdin:
        question = json.loads(line)
        if question is None:
            answer: Any = list(cases)
        else:
            name, budget = question
            answer = median_seconds(cases[name], ns.root.block_until_ready, budget)
        print(json.dumps(answer), flush=True)


def geometric_mean(values: list[float]) -> float:
    """The mean that suits ratios."""
    return math.exp(statistics.fmean(map(math.log, values)))


def report(question: str, seconds: dict[str, dict[str, float]]) -> None:
    """Print one line of JSON: the question, microseconds of each case, and ratios where there is a peer."""
    rows = {}
    for case, sides in seconds.items():
        row = {side: round(value * 1e6, 3) for side, value in sides.items()}
        if "jax" in sides:
            row["ratio"] = round(sides["purax"] / sides["jax"], 3)
        rows[case] = row
    line: dict[str, Any] = {"question": question, "unit": "us"}
    ratios = [row["ratio"] for row in rows.values() if "ratio" in row]
    if ratios:
        line["ratio"] = round(geometric_mean(ratios), 3)
    line["cases"] = rows
    line["machine"] = f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}"
    print(json.dumps(line))


def arguments() -> argparse.Namespace:
    """What every benchmark can be told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer-python", help="interpreter of an environment with JAX, to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--seconds", type=float, default=0.2, help="per case, side and round")
    parser.add_argument("--only", help="part of the names of the cases to run")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main(script: str, question: str, build: Callable[[SimpleNamespace], Cases]) -> None:
    """Run the benchmark of a file."""
    options = arguments()
    if options.child:
        serve(build, options.child)
        return
    sides = [Side(script, "purax", sys.executable)]
    if options.peer_python:
        sides.append(Side(script, "jax", options.peer_python))
    names = [name for name in sides[0].ask(None) if not options.only or options.only in name]
    for side in sides[1:]:
        side.ask(None)
    found: dict[str, dict[str, list[float]]] = {name: {side.name: [] for side in sides} for name in names}
    for _ in range(options.rounds):
        for name in names:
            for side in sides:
                found[name][side.name].append(side.ask([name, options.seconds]))
    for side in sides:
        side.close()
    report(question, {name: {s: statistics.median(v) for s, v in row.items()} for name, row in found.items()})
