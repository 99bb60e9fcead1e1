# SPDX-License-Identifier: Apache-2.0
"""Checks the tables of docs/differences.md by running each input.

    python tools/differences.py                                     # the column of purax
    python tools/differences.py --peer-python PATH                  # that of JAX as well, by an interpreter that has jax, flax, optax
    python tools/differences.py --write [--peer-python PATH]        # rewrites the columns

A row begins with its input in backticks: an expression over the names of the block of Python at the top of the document, in which
`purax`, `pnp`, `lax`, `nn`, `random`, `linen`, `optim`, `checkify` and `sparse` stand for the modules of either library.
"""

import argparse
import builtins
import importlib
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "differences.md"
MODULES = {
    "purax": {"pnp": "purax.numpy", "lax": "purax.lax", "nn": "purax.nn", "random": "purax.random", "linen": "purax.linen", "optim": "purax.optim", "checkify": "purax.experimental.checkify", "sparse": "purax.experimental.sparse"},
    "jax": {"pnp": "jax.numpy", "lax": "jax.lax", "nn": "jax.nn", "random": "jax.random", "linen": "flax.linen", "optim": "optax", "checkify": "jax.experimental.checkify", "sparse": "jax.experimental.sparse"},
}  # fmt: skip


def preamble(text: str) -> str:
    """The first block of Python of the document."""
    return re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE).group(1)  # type: ignore[union-attr]


def inputs(text: str) -> list[str]:
    """The inputs of all rows."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def shown(value: Any) -> str:
    """Plain text of a result, the same whatever the library."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return ("({})" if isinstance(value, tuple) else "[{}]").format(", ".join(map(shown, value)))
    if isinstance(value, str | bool | type(None)):
        return str(value)
    if isinstance(value, np.dtype):
        return value.name
    value = np.asarray(value)
    if value.ndim:
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value) if value.dtype.kind in "biu" else f"{float(f'{float(value):.3g}'):g}"


def kind(error: Exception) -> str:
    """The built-in class of an error."""
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def answers(implementation: str, text: str) -> list[str]:
    """What each input gives."""
    names: dict[str, Any] = {"np": np, "purax": importlib.import_module(implementation)}
    names.update({name: importlib.import_module(module) for name, module in MODULES[implementation].items()})
    names["io_callback"] = importlib.import_module(f"{implementation}.experimental").io_callback
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(preamble(text), DOCUMENT.name, "exec"), names)
        for expression in inputs(text):
            try:
                results.append(shown(builtins.eval(expression, names)))
            except Exception as error:
                results.append(kind(error))
    return results


def peer_answers(python: str, text: str) -> list[str]:
    """The same by JAX, in another interpreter."""
    command = [python, str(Path(__file__).resolve()), "--child"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def filled(text: str, own: list[str], peer: list[str] | None) -> str:
    """The document with the columns that were computed."""
    rows = iter(zip(own, peer or [None] * len(own), strict=True))  # type: ignore[list-item]

    def line(match: re.Match[str]) -> str:
        cells = match.group(0).split(" | ")
        mine, theirs = next(rows)
        return " | ".join([cells[0], cells[1] if theirs is None else theirs, f"{mine} |"])

    return re.sub(r"^\| `[^`]+` \| .* \|$", line, text, flags=re.MULTILINE)


def main() -> int:
    """Compare or write; returns 1 if a row is not true."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the columns")
    parser.add_argument("--peer-python", help="an interpreter that has jax, flax and optax")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(answers("jax", sys.stdin.read())))
        return 0
    text = DOCUMENT.read_text(encoding="utf-8")
    now = filled(text, answers("purax", text), peer_answers(options.peer_python, text) if options.peer_python else None)
    if options.write:
        DOCUMENT.write_text(now, encoding="utf-8")
        return 0
    changed = [line for line in now.splitlines() if line not in text.splitlines()]
    for line in changed:
        print(f"now: {line}")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
