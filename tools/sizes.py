# SPDX-License-Identifier: Apache-2.0
"""Prints the lines of Python per layer, so that growth is seen."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ("core", "sharding", "lowering", "runtime", "pipeline", "transforms", "control")


def lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


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
    for path in sorted((ROOT / "purax").rglob("*.py")):
        if lines(path) > 500:
            print(f"long: {path.relative_to(ROOT)} {lines(path)}")


if __name__ == "__main__":
    main()
