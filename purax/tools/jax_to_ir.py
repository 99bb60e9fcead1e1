# SPDX-License-Identifier: Apache-2.0
"""Write a function of a module as a program in XLA's HLO: `python -m purax.tools.jax_to_ir --fn module.function ...`."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import errors
from purax.control.jit import jit
from purax.core.aval import ShapeDtypeStruct
from purax.dtypes import HLO_NAMES, float0
from purax.runtime.executable import hlo_proto

__all__ = ["jax_to_hlo", "parse_shape_str"]

_WORDS = {"i": "s", "ui": "u", "f": "f"}  # StableHLO's letters -> HLO's


def _hlo_word(stablehlo: str) -> str:
    if stablehlo.startswith("complex"):
        return {"complex<f32>": "c64", "complex<f64>": "c128"}[stablehlo]
    letters = stablehlo.rstrip("0123456789")
    return _WORDS.get(letters, letters) + stablehlo[len(letters) :]


_BOOL = np.dtype(np.bool_)
_DTYPES = {_hlo_word(text): dtype for dtype, text in HLO_NAMES.items() if dtype not in (_BOOL, float0)}
_DTYPES["pred"] = _BOOL  # StableHLO writes it as an integer of one bit


def parse_shape_str(text: str) -> ShapeDtypeStruct:
    """The type that HLO writes as `text`, such as ``f32[128,2]``.

    Raises
    ------
    ValueError
        It is no such type.
    """
    match = re.fullmatch(r"(\w+)\[\s*((?:\d+(?:\s*,\s*\d+)*)?)\s*\]", text.strip())
    if match is None or match[1] not in _DTYPES:
        raise ValueError(
            f"Invalid shape string {text!r}: write a dtype among {', '.join(sorted(_DTYPES))} and sizes in brackets, as in 'f32[128,2]'"
        )
    return ShapeDtypeStruct(tuple([int(size) for size in match[2].split(",") if size]), _DTYPES[match[1]])


def jax_to_hlo(
    fn: Callable[..., Any],
    input_shapes: Sequence[tuple[str, ShapeDtypeStruct]],
    constants: dict[str, Any] | None = None,
) -> tuple[bytes, str]:
    """A function as an HLO module.

    Parameters
    ----------
    fn : callable
    input_shapes : sequence of (str, ShapeDtypeStruct)
        Names and types of arguments, in the order that the parameters of the program have.
    constants : dict, optional
        Values of the other arguments; operations on these alone are done now.

    Returns
    -------
    proto : bytes
        The module, serialized.
    text : str
        The module, to be read.

    Raises
    ------
    ValueError
        The names are not those of the arguments of `fn`.
    """
    constants = constants or {}
    names = [name for name, _ in input_shapes]
    parameters = inspect.signature(fn).parameters
    known, given = set(parameters), {*names, *constants}
    needed = {name for name, one in parameters.items() if one.default is one.empty}
    if len(names) + len(constants) != len(given) or not needed <= given <= known:
        raise ValueError(
            errors.explain(
                f"the arguments of the function are {sorted(known)}, but shapes are given for {names} and constants for {sorted(constants)}",
                fix="give each argument either a shape or a constant",
            )
        )

    def ordered(*values: Any) -> Any:
        return fn(**dict(zip(names, values, strict=True)), **constants)

    lowered = jit(ordered, keep_unused=True).lower(*[shape for _, shape in input_shapes])
    return hlo_proto(lowered.as_text()), lowered.as_text("hlo")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="jax_to_ir", description=__doc__)
    parser.add_argument("--fn", required=True, help="module.function")
    parser.add_argument("--input_shapes", required=True, help="""such as '[("x", "f32[128,2]")]'""")
    parser.add_argument("--constants", default="{}", help="""such as '{"a": 2.0}'""")
    parser.add_argument("--hlo_proto_dest", help="file for the serialized module")
    parser.add_argument("--hlo_text_dest", help="file for the text; the standard output by default")
    options = parser.parse_args(argv)
    module, _, name = options.fn.rpartition(".")
    if not module:
        parser.error("--fn must be module.function")
    shapes = [(argument, parse_shape_str(text)) for argument, text in ast.literal_eval(options.input_shapes)]
    fn = getattr(importlib.import_module(module), name)
    proto, text = jax_to_hlo(fn, shapes, ast.literal_eval(options.constants))
    if options.hlo_proto_dest:
        pathlib.Path(options.hlo_proto_dest).write_bytes(proto)
    if options.hlo_text_dest:
        pathlib.Path(options.hlo_text_dest).write_text(text)
    elif not options.hlo_proto_dest:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
