# SPDX-License-Identifier: Apache-2.0
"""Runs the code of docs/tour.md and compares what it prints with the block of text that follows.

    python tools/tour.py           # tells what differs
    python tools/tour.py --write   # rewrites the blocks of text

All blocks of Python share one namespace, like the cells of a notebook.
"""

import argparse
import contextlib
import difflib
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

TOUR = Path(__file__).resolve().parent.parent / "docs" / "tour.md"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def run(text: str) -> str:
    """The document with what its code prints now."""
    names: dict[str, Any] = {"__name__": "tour"}

    def block(match: re.Match[str]) -> str:
        code = match["code"]
        line = text[: match.start()].count("\n") + 1
        printed = io.StringIO()
        # Four digits: the last bits of sines differ between processors.
        with contextlib.redirect_stdout(printed), np.printoptions(precision=4):
            exec(compile("\n" * line + code, TOUR.name, "exec"), names)
        output = "\n".join(part.rstrip() for part in printed.getvalue().rstrip().splitlines())
        return f"```python\n{code}```\n" + (f"\n```text\n{output}\n```\n" if output else "")

    return BLOCK.sub(block, text)


def main() -> int:
    """Compare or write; returns 1 if the document differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the blocks of text")
    options = parser.parse_args()
    text = TOUR.read_text(encoding="utf-8")
    now = run(text)
    if options.write:
        TOUR.write_text(now, encoding="utf-8")
        return 0
    sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), now.splitlines(True), TOUR.name, "now"))
    return int(text != now)


if __name__ == "__main__":
    sys.exit(main())
