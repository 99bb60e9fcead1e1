# SPDX-License-Identifier: Apache-2.0
"""Prints the lines of Python per layer, so that growth is seen; `--write` puts them into the table of docs/status.md."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ("core", "sharding", "lowering", "runtime", "pipeline", "transforms", "control")


def lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(folder: Path) -> int:
    """Return the number of test functions below a folder; parametrized ones count once."""
    return sum(
        len(re.findall(r"^def test_", path.read_text(encoding="utf-8"), re.MULTILINE))
        for path in folder.rglob("test_*.py")
    )


def table(totals: dict[str, int], counts: dict[str, int]) -> str:
    """Return the table of docs/status.md: the layers from the bottom up, and what tests them."""
    order = (
        "tree",
        *ENGINE[:4],
        "pipeline",
        "primitives",
        *ENGINE[5:],
        "numpy",
        "random",
        "scipy",
        "nn",
        "linen",
        "optim",
        "data",
        "train",
        "cli",
    )
    rows = ["| layer | files | lines | test functions |", "|---|---:|---:|---:|"]
    for name in order:
        if name in totals:
            rows.append(f"| `{name}` | {counts[name]} | {totals[name]:,} | {functions(ROOT / 'tests' / name) or ''} |")
    rest = [name for name in totals if name not in order]
    rows.append(
        f"| the rest: settings, dtypes, errors, events, facades | {sum(counts[n] for n in rest)} | {sum(totals[n] for n in rest):,} | |"
    )
    rows.append(f"| all | {sum(counts.values())} | {sum(totals.values()):,} | {functions(ROOT / 'tests')} |")
    return "\n".join(rows)


def write_table(totals: dict[str, int], counts: dict[str, int]) -> None:
    """Rewrite the table of docs/status.md."""
    path = ROOT / "docs" / "status.md"
    text = path.read_text(encoding="utf-8")
    found = re.sub(r"^\| layer .*?(?=\n\n)", lambda _: table(totals, counts), text, flags=re.DOTALL | re.MULTILINE)
    path.write_text(found, encoding="utf-8")


def main() -> None:
    """Print one row per layer, the engine's total, and the files that want a reason for their size."""
    layers: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "purax").rglob("*.py")):
        layers.setdefault(path.relative_to(ROOT / "purax").parts[0].removesuffix(".py"), []).append(path)
    print(f"{'layer':<14}{'files':>7}{'lines':>8}{'mean':>7}")
    totals = {name: sum(map(lines, paths)) for name, paths in layers.items()}
    for name in sorted(layers, key=lambda layer: -totals[layer]):
        count = len(layers[name])
        print(f"{name:<14}{count:>7}{totals[name]:>8}{totals[name] // count:>7}")
    print(f"{'engine':<14}{'':>7}{sum(totals.get(name, 0) for name in ENGINE):>8}")
    print(f"{'all':<14}{sum(map(len, layers.values())):>7}{sum(totals.values()):>8}")
    print(f"{'tests':<14}{'':>7}{sum(map(lines, (ROOT / 'tests').rglob('*.py'))):>8}")
    if "--write" in sys.argv:
        write_table(totals, {name: len(paths) for name, paths in layers.items()})
    for path in sorted((ROOT / "purax").rglob("*.py")):
        if lines(path) > 500:
            print(f"long: {path.relative_to(ROOT)} {lines(path)}")


if __name__ == "__main__":
    main()
