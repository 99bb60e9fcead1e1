# SPDX-License-Identifier: Apache-2.0
"""Writes docs/conformance.md: how many of other libraries' own tests pass on purax, and why the others do not.

    python tools/conformance.py                       # compares the page with its numbers
    python tools/conformance.py RESULTS.json          # prints the failures that have no reason yet
    python tools/conformance.py RESULTS.json --write  # puts the results into docs/conformance.json, and rewrites the pages

RESULTS.json is what the runner of `make conformance` leaves. Files that it does not have keep the numbers of an earlier run.
docs/conformance_reasons.toml gives failures a kind and a reason. Tests that fail because of a difference on purpose are named at the
end of docs/differences.md.
"""

import argparse
import collections
import fnmatch
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, NUMBERS, REASONS = (DOCS / f"conformance{end}" for end in (".md", ".json", "_reasons.toml"))
DIFFERENCES = DOCS / "differences.md"
KINDS = {
    "name": "a name or an option that is not built",
    "difference": "a difference on purpose (differences.md)",
    "internal": "internals, exact texts, counts of compilations or other platforms of the library that is tested",
    "fault": "a fault that is known",
    "test": "the test itself: it needs what is not installed, or fails on its own library as well",
    "open": "not sorted yet",
}
COUNTS = ("collected", "left_out", "run", "passed", "skipped")
HEAD = """# Other libraries' tests

How the test suites of JAX, Flax, Optax and of the array API standard fare on purax, unmodified: `jax` in their imports means purax.
`make conformance HARNESS=<folder> TREES=<folder>` runs them and rewrites this page (`TIER`, `AREA` and `FILES` choose among them).
Tests of internals (`jax._src`) are left out. What fails is sorted by [conformance_reasons.toml](conformance_reasons.toml).
"""


NAMED = """## Tests of other libraries that fail by these differences

`python tools/conformance.py --write` writes this list; [conformance.md](conformance.md) has the numbers.
"""


class Reason(NamedTuple):
    """Why tests fail: those whose names match a pattern, with a message that matches `message`."""

    kind: str
    reason: str
    tests: list[str]
    message: str = ""

    def explains(self, test: str, message: str) -> bool:
        """Tell whether a failure has this reason."""
        return any(fnmatch.fnmatchcase(test, pattern) for pattern in self.tests) and bool(
            re.search(self.message, message)
        )


def reasons() -> list[Reason]:
    """Return the list of reasons; the first that explains a failure counts."""
    return [Reason(**one) for one in tomllib.loads(REASONS.read_text(encoding="utf-8"))["reason"]]


def name_of(result: dict[str, Any], failure: dict[str, Any]) -> str:
    """Return the name of a test as file::test, the file relative to the tree of its library."""
    return f"{result['file']}::{failure['id'].split('::', 1)[-1]}"


def numbers_of(result: dict[str, Any], known: list[Reason]) -> dict[str, Any]:
    """Return what is kept of one file's results: counts, and how many failures have which reason."""
    sorted_: collections.Counter[str] = collections.Counter()
    named: dict[str, list[str]] = {}
    for failure in result["failures"]:
        name = name_of(result, failure)
        first = next((one for one in known if one.explains(name, failure["reason"])), None)
        sorted_[f"{first.kind}: {first.reason}" if first else "open"] += 1
        if first and first.kind == "difference":
            named.setdefault(first.reason, []).append(name.partition("::")[2])
    left_out = result["internal_static"] + result["internal_dynamic"] + result["semi"] + result["deselected"]
    counts = (result["collected"], left_out, result["ran"], result["passed"], result["skipped"] + result["xfailed"])
    complete = {} if result["status"] == "ok" else {"status": result["status"]}
    kept = {"library": result["peer"], **dict(zip(COUNTS, counts, strict=True)), **complete, "failures": dict(sorted_)}
    return {**kept, "differences": named} if named else kept


def naming(text: str, numbers: dict[str, Any]) -> str:
    """Return the text of differences.md with the list of the tests that fail by a difference at its end."""
    parts = [text.partition(NAMED.partition("\n")[0])[0].rstrip("\n"), "\n\n", NAMED]
    for name, one in sorted(numbers.items()):
        for reason, tests in sorted(one.get("differences", {}).items()):
            listed = ", ".join(f"`{test}`" for test in sorted(tests))
            parts.append(f"\n- `{name}`: {reason}: {listed}\n")
    return "".join(parts)


def page(numbers: dict[str, Any]) -> str:
    """Return the page for the numbers of all files."""
    parts = [HEAD]
    for library in sorted({one["library"] for one in numbers.values()}):
        mine = {name: one for name, one in numbers.items() if one["library"] == library}
        parts.append(
            f"\n## {library}\n\n| file | tests | left out | run | passed | share | skipped |\n|---|---:|---:|---:|---:|---:|---:|\n"
        )
        for name, one in sorted(mine.items()):
            parts.append(row(f"`{name}`" + (f" ({one['status']})" if "status" in one else ""), one))
        parts.append(row("all", {count: sum(one[count] for one in mine.values()) for count in COUNTS}))
    parts.append("\n## What fails, by reason\n")
    totals: collections.Counter[str] = collections.Counter()
    for one in numbers.values():
        totals.update(one["failures"])
    for kind, title in KINDS.items():
        mine = {reason: n for reason, n in totals.items() if reason.partition(":")[0] == kind}
        if mine:
            parts.append(f"\n{sum(mine.values())} because of {title}" + (".\n" if kind == "open" else ":\n\n"))
            parts.extend(
                f"- {n}: {reason.partition(': ')[2]}\n"
                for reason, n in sorted(mine.items(), key=lambda x: (-x[1], x[0]))
                if kind != "open"
            )
    return "".join(parts)


def row(name: str, one: dict[str, Any]) -> str:
    """Return a line of the table."""
    share = f"{one['passed'] / one['run']:.1%}" if one["run"] else ""
    return f"| {name} | {one['collected']} | {one['left_out']} | {one['run']} | {one['passed']} | {share} | {one['skipped']} |\n"


def main() -> int:
    """Read results, write the page or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    known = reasons()
    for path in options.results:
        for result in json.loads(path.read_text(encoding="utf-8"))["results"]:
            numbers[result["file"]] = numbers_of(result, known)
            for failure in result["failures"]:
                name = name_of(result, failure)
                if not any(one.explains(name, failure["reason"]) for one in known):
                    print(f"no reason: {name}: {' '.join(failure['reason'].split())[:160]}")
    if options.write:
        NUMBERS.write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        PAGE.write_text(page(numbers), encoding="utf-8")
        text = DIFFERENCES.read_text(encoding="utf-8")
        DIFFERENCES.write_text(naming(text, numbers), encoding="utf-8")
        return 0
    return 0 if options.results or PAGE.read_text(encoding="utf-8") == page(numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
