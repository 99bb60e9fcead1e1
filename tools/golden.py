# SPDX-License-Identifier: Apache-2.0
"""Compares the programs of tests/golden with the texts that stand beside them: jaxprs, StableHLO, error messages.

    python tools/golden.py           # tells what differs
    python tools/golden.py --write   # rewrites the texts

A file holds a title, the section `program`, and the expected sections after it, each begun by a line `--- name`. The program
defines `function` and `operands`:

- `jaxpr`      what `make_jaxpr` prints
- `stablehlo`  what `jit(function, **options)` lowers to, without source locations
- `value`      what the function returns
- `error`      class and message of what a call raises
"""

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any

import purax
from purax.lowering.module import strip_locations

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"


def jaxpr(program: dict[str, Any]) -> str:
    """Text of the staged function."""
    return str(purax.make_jaxpr(program["function"])(*program["operands"]))


def stablehlo(program: dict[str, Any]) -> str:
    """Text of the lowered function."""
    jitted = purax.jit(program["function"], **program.get("options", {}))
    return strip_locations(jitted.lower(*program["operands"]).as_text())


def value(program: dict[str, Any]) -> str:
    """What the function returns."""
    return repr(program["function"](*program["operands"]))


def error(program: dict[str, Any]) -> str:
    """What the function raises."""
    try:
        result = program["function"](*program["operands"])
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return f"no error: {result!r}"


SECTIONS = {"jaxpr": jaxpr, "stablehlo": stablehlo, "value": value, "error": error}


def parts(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The title, and the sections by name."""
    title, *rest = text.split("\n--- ")
    return title, [(section.split("\n", 1)[0], section.split("\n", 1)[1]) for section in rest]


def actual(path: Path) -> str:
    """The file as it would be written now."""
    title, sections = parts(path.read_text(encoding="utf-8"))
    source = dict(sections)["program"]
    line = title.count("\n") + 2
    program: dict[str, Any] = {"__name__": path.stem}
    exec(compile("\n" * line + source, path.name, "exec"), program)
    lines = [title]
    for name, text in sections:
        found = text if name == "program" else SECTIONS[name](program)
        lines.append(f"--- {name}\n{found.strip()}\n")
    return "\n".join(lines)


def main() -> int:
    """Compare or write; returns 1 if a file differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the files")
    options = parser.parse_args()
    differs = False
    for path in sorted(FOLDER.glob("*.txt")):
        want, have = path.read_text(encoding="utf-8"), actual(path)
        if want == have:
            continue
        if options.write:
            path.write_text(have, encoding="utf-8")
        else:
            differs = True
            sys.stdout.writelines(difflib.unified_diff(want.splitlines(True), have.splitlines(True), path.name, "now"))
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
