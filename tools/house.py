# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the house that no general tool knows.

- each `__all__` is a literal list, and each name in it exists;
- no module has the name of a function of its package that it would hide;
- the public names are those of `docs/api.txt` (`--write` rewrites the file);
- each public function tells its arguments, the kind of its result and the errors that it raises itself, or its module does for all;
- each primitive has samples in `tests/`, or a reason to have none in `tests/laws/gather.py`;
- with `--rules`, each `Undefined` rule is printed with its reason, to be reviewed.
"""

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "docs" / "api.txt"
# Words that tell what a result is.
RESULTS = re.compile(
    r"\b(\w*dtype\w*|shapes?|bool\w*|u?int\d*|integers?|index|indices|float\w*|inexact|scalar|text|lists?|tuple|dict|mapping|vectors? of|"
    r"matri\w+|namespace|whether|view|callable|(array|tree) like)\b",
    re.IGNORECASE,
)
RULES = ("infer", "reference", "jvp", "transpose", "batch", "lower", "linearize")


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the package or the tests."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def declared(path: Path) -> ast.expr | None:
    """Return the expression that a file assigns to `__all__`."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return value
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=value):
                return value
    return None


def is_literal(value: ast.expr) -> bool:
    """Tell whether an expression is a list or tuple of strings."""
    return isinstance(value, ast.List | ast.Tuple) and all(
        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in value.elts
    )


def check_imports() -> Iterator[str]:
    """Yield the modules that cannot be imported."""
    for path in sorted((ROOT / "purax").rglob("*.py")):
        if path.name != "__main__.py":
            try:
                importlib.import_module(module_name(path))
            except Exception as error:
                yield f"{module_name(path)} cannot be imported: {type(error).__name__}: {error}"


def check_all() -> Iterator[str]:
    """Yield what is wrong with the `__all__` lists."""
    for path in sorted((ROOT / "purax").rglob("*.py")):
        value = declared(path)
        name = module_name(path)
        if value is None:
            continue
        # A facade adds up the lists that it star-imports; everything else is literal.
        if not is_literal(value):
            if path.name != "__init__.py":
                yield f"{name}: __all__ is not a literal list of strings"
            continue
        module = importlib.import_module(name)
        for one in ast.literal_eval(value):
            try:
                getattr(module, one)
            except (AttributeError, ImportError):
                yield f"{name}: __all__ names {one}, which does not exist"


def check_hidden() -> Iterator[str]:
    """Yield the modules that, once imported, hide a function that their package star-imports."""
    for path in sorted((ROOT / "purax").rglob("__init__.py")):
        if "import *" not in path.read_text(encoding="utf-8"):
            continue
        package = importlib.import_module(module_name(path))
        siblings = [
            importlib.import_module(module_name(one))
            for one in path.parent.glob("*.py")
            if one != path and one.stem != "__main__"
        ]
        for module in siblings:
            name = module.__name__.rpartition(".")[2]
            offered = any(name in getattr(one, "__all__", ()) for one in siblings if one is not module)
            if offered and getattr(package, name, None) is module:
                yield f"{module.__name__} hides the function {name} of {package.__name__}: rename the module"


def sections(text: str) -> dict[str, list[str]]:
    """Return the lines of each section of a NumPy-style docstring; what precedes them all is the section without a name."""
    found: dict[str, list[str]] = {"": []}
    name, lines = "", text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        if line and not line[0].isspace() and below and set(below) == {"-"}:
            found[name := line] = []
        elif not line or set(line) != {"-"}:
            found[name].append(line)
    return found


def entries(lines: list[str]) -> set[str]:
    """Return the names that the entries of a section are about; lines that are indented explain them."""
    return {
        name
        for line in lines
        if line and not line[0].isspace()
        for name in re.findall(r"\w+", line.partition(" : ")[0])
    }


def raised(function: ast.FunctionDef) -> set[str]:
    """Return the exceptions that a function, or one that it makes, raises by itself."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and node.exc is not None:
            cause = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            found.add(cause.attr if isinstance(cause, ast.Attribute) else getattr(cause, "id", ""))
    # A lower-case name is a variable, or a helper that makes the error.
    return {name for name in found if name[:1].isupper()}


def is_overload(function: ast.FunctionDef) -> bool:
    """Tell whether a function is only a signature of the one that follows it."""
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in function.decorator_list)


def untold(function: ast.FunctionDef, head: dict[str, list[str]]) -> Iterator[str]:
    """Yield what the docstring of a public function, and that of its module, leave out."""
    text = ast.get_docstring(function) or ""
    own = sections(text)
    if missing := raised(function) - entries(own.get("Raises", [])):
        yield f"say when it raises {', '.join(sorted(missing))}, in a section Raises"
    a = function.args
    arguments = [one.arg for one in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg) if one is not None]
    arguments = [name for name in arguments if name not in entries(head.get("Parameters", []))]
    if "Parameters" in own:
        silent = [name for name in arguments if name not in entries(own["Parameters"])]
        if silent:
            yield f"tell the arguments {', '.join(silent)} in the section Parameters"
    elif len(arguments) > 2:
        yield f"tell the {len(arguments)} arguments in a section Parameters"
    else:
        silent = [name for name in arguments[1:] if not re.search(rf"\b{name}\b", text)]
        if silent:
            yield f"tell the argument {', '.join(silent)}"
    kind = ast.unparse(function.returns) if function.returns is not None else "None"
    if kind != "None" and not {"Returns", "Yields"} & set(own):
        said = " ".join((*own[""], *head[""], *head.get("Returns", [])))
        if "Parameters" in own or ("Any" in kind.replace("Callable[..., Any]", "") and not RESULTS.search(said)):
            yield "say which dtype or shape the result has, here or for the whole module"


def check_docstrings() -> Iterator[str]:
    """Yield what the docstrings of public functions leave out.

    Errors that a function raises itself stand in its section Raises. Three arguments or more stand in a section Parameters, and then
    results in a section Returns; for fewer a paragraph will do that names the second argument and, unless the annotation does, the kind of
    the result. What the functions of a file share (arguments in a section Parameters, results in any words) may stand in its own
    docstring.
    """
    for path in sorted((ROOT / "purax").rglob("*.py")):
        tree, value, module = ast.parse(path.read_text(encoding="utf-8")), declared(path), module_name(path)
        if value is None or not is_literal(value) or any(part.startswith("_") for part in module.split(".")):
            continue
        head, names = sections(ast.get_docstring(tree) or ""), ast.literal_eval(value)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in names and not is_overload(node):
                for fault in untold(node, head):
                    yield f"{module}.{node.name}: {fault}"


def public_names() -> list[str]:
    """Return all public names, as `module.name`, of modules without a leading underscore."""
    names: set[str] = set()
    for path in sorted((ROOT / "purax").rglob("*.py")):
        name = module_name(path)
        if any(part.startswith("_") for part in name.split(".")) or declared(path) is None:
            continue
        names.update(f"{name}.{one}" for one in importlib.import_module(name).__all__)
    return sorted(names)


def check_snapshot(write: bool) -> Iterator[str]:
    """Yield the differences between the public names and the snapshot, or rewrite it."""
    names = public_names()
    if write:
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        print(f"wrote {len(names)} names to {SNAPSHOT.relative_to(ROOT)}")
        return
    kept = set(SNAPSHOT.read_text(encoding="utf-8").split()) if SNAPSHOT.exists() else set()
    for name in sorted(kept - set(names)):
        yield f"public name gone: {name} (python tools/house.py --write accepts the change)"
    for name in sorted(set(names) - kept):
        yield f"public name new: {name} (python tools/house.py --write accepts the change)"


def check_primitives(rules: bool) -> Iterator[str]:
    """Yield the primitives without samples; print, if asked, the rules that are declared not to exist."""
    primitive: Any = importlib.import_module("purax.core.primitive")
    registry = dict(primitive.registry)
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, one in sorted(registry.items()):
        for rule in RULES:
            value = getattr(one, rule, None)
            if isinstance(value, primitive.Undefined):
                reasons.setdefault((rule, value.reason), []).append(name)
    for (rule, reason), names in sorted(reasons.items()) if rules else ():
        print(f"  {rule}: {reason}: {', '.join(names)}")
    for name in importlib.import_module("tests.laws.gather").without_samples():
        yield f"primitive without samples: {name}"


def main() -> int:
    """Run the checks; return 1 if one of them found something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite docs/api.txt")
    parser.add_argument("--rules", action="store_true", help="print the rules that cannot exist")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    problems = [*check_imports()]
    if not problems:
        problems = [
            *check_all(),
            *check_hidden(),
            *check_docstrings(),
            *check_snapshot(options.write),
            *check_primitives(options.rules),
        ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
