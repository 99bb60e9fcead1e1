# SPDX-License-Identifier: Apache-2.0
"""Lowers the models of tests/replay and compares the text with what it was: a refactor changes none of it.

    python tools/replay.py                # tells which programs changed
    python tools/replay.py --write        # accepts the change
    python tools/replay.py --dump FOLDER  # writes the texts, to compare two versions by `diff -r`

Source locations are left out. `tests/replay/hashes.txt` holds name, operations and hash of each.
"""

import argparse
import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HASHES = ROOT / "tests" / "replay" / "hashes.txt"
sys.path.insert(0, str(ROOT))

import purax  # noqa: E402
from purax.lowering.module import strip_locations, strip_paths  # noqa: E402
from tests.replay.models import MODELS  # noqa: E402


def lowered(name: str) -> str:
    """StableHLO of one model."""
    function, operands = MODELS[name]()
    return strip_paths(strip_locations(purax.jit(function).lower(*operands).as_text()))


def record(name: str) -> str:
    """Its line of the file."""
    text = lowered(name)
    operations = sum(" = " in line for line in text.splitlines())
    return f"{name:<20}{operations:>6}  {hashlib.sha256(text.encode()).hexdigest()[:32]}"


def main() -> int:
    """Compare, write or dump; returns 1 if a program changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite tests/replay/hashes.txt")
    parser.add_argument("--dump", type=Path, help="folder for the texts")
    options = parser.parse_args()
    if options.dump:
        options.dump.mkdir(parents=True, exist_ok=True)
        for name in MODELS:
            (options.dump / f"{name}.mlir").write_text(lowered(name), encoding="utf-8")
        return 0
    lines = [record(name) for name in MODELS]
    if options.write:
        HASHES.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return 0
    kept = HASHES.read_text(encoding="utf-8").splitlines()
    changed = [line for line in lines if line not in kept]
    for line in changed:
        print(f"changed: {line}")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
