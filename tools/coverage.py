# SPDX-License-Identifier: Apache-2.0
"""Writes docs/coverage.md: which public names of JAX, Flax linen and Optax purax has, and why it leaves others out.

    python tools/coverage.py           # compares the page with the code
    python tools/coverage.py --write   # rewrites it

The names are those of tools/peer_names.txt. docs/coverage_reasons.toml says why names are left out; the rest is not built yet.
"""

import argparse
import fnmatch
import importlib
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE, REASONS, NAMES = (
    ROOT / "docs" / "coverage.md",
    ROOT / "docs" / "coverage_reasons.toml",
    ROOT / "tools" / "peer_names.txt",
)
# Where the names of a module are, if not in the module that is called alike.
PLACES = {
    "flax.linen": "purax.linen",
    "flax.linen.initializers": "purax.linen.initializers",
    "flax.core": "purax.linen",
    "flax.struct": "purax.tree.dataclass",
    "flax.serialization": "purax.train.checkpoint",
    "flax.traverse_util": "purax.tree",
    "flax.training.train_state": "purax.train",
    "optax": "purax.optim",
}
HEAD = """# Coverage

Which public names of JAX, Flax linen and Optax purax has ({versions}; deprecated names do not count).
`python tools/coverage.py --write` makes this page from the code and from the names in `tools/peer_names.txt`. A name that is here has
the signature and the meaning that it has there, but for [differences.md](differences.md). Names that are left out for good have a
reason; the others are not built yet.

| module | names | here | left out | not built |
|---|---:|---:|---:|---:|
"""


class Module(NamedTuple):
    """The names of a module, sorted: those that exist, those that are left out, by reason, and the rest."""

    name: str
    place: str
    here: list[str]
    left_out: dict[str, list[str]]
    missing: list[str]

    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of the table."""
        out = sum(map(len, self.left_out.values()))
        return len(self.here) + out + len(self.missing), len(self.here), out, len(self.missing)


def peers() -> dict[str, list[str]]:
    """Return the names of each module."""
    found: dict[str, list[str]] = {}
    module = ""
    for line in NAMES.read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith(" "):
            found[module] += line.split()
        else:
            module = line.strip()
            found[module] = []
    return found


def place_of(module: str) -> str:
    """Return the dotted name of purax's module for one of a peer."""
    if module in PLACES:
        return PLACES[module]
    top, _, rest = module.partition(".")
    return ".".join(filter(None, ("purax", "optim" if top == "optax" else "", rest)))


def found_in(place: str) -> Any:
    """Return a module of purax, or None where there is none."""
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError:
        # The names may be attributes of an object, or of a module that is imported when it is read.
        parent, _, last = place.rpartition(".")
        return getattr(found_in(parent), last, None) if parent else None


def modules() -> list[Module]:
    """Return what is found of each module."""
    reasons = [(one["reason"], one["names"]) for one in tomllib.loads(REASONS.read_text(encoding="utf-8"))["reason"]]
    result = []
    for name, names in peers().items():
        place = place_of(name)
        module = found_in(place)
        one = Module(name, place, [], {}, [])
        for short in names:
            whole = f"{name}.{short}"
            why = next(
                (reason for reason, patterns in reasons if any(fnmatch.fnmatchcase(whole, p) for p in patterns)), None
            )
            if module is not None and hasattr(module, short):
                one.here.append(short)
            elif why is not None:
                one.left_out.setdefault(why, []).append(short)
            else:
                one.missing.append(short)
        result.append(one)
    return result


def listed(title: str, names: list[str]) -> str:
    """Return a paragraph of names."""
    text = f"{title}: " + ", ".join(f"`{name}`" for name in names)
    return textwrap.fill(text, 130, break_long_words=False, break_on_hyphens=False) + "\n\n"


def page() -> str:
    """Return the page."""
    found = modules()
    versions = NAMES.read_text(encoding="utf-8").splitlines()[0].removeprefix("# Public names of ").partition(";")[0]
    parts = [HEAD.format(versions=versions)]
    parts += [f"| `{one.name}` | " + " | ".join(map(str, one.sizes())) + " |\n" for one in found]
    parts.append(
        "| all | "
        + " | ".join(str(sum(column)) for column in zip(*(one.sizes() for one in found), strict=True))
        + " |\n\n"
    )
    for one in found:
        parts.append(f"## {one.name}\n\n")
        parts += [listed(f"In `{one.place}`", one.here)] if one.here else []
        parts += [listed(f"Left out {why}", names) for why, names in one.left_out.items()]
        parts += [listed("Not built", one.missing)] if one.missing else []
    return "".join(parts).rstrip("\n") + "\n"


def main() -> int:
    """Rewrite the page, or tell whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    text = page()
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/coverage.md is not current: python tools/coverage.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
