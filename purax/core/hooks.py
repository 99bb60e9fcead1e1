# SPDX-License-Identifier: Apache-2.0
"""The upward calls of the core, in one place.

`core` sits below everything that evaluates or that knows NumPy's functions, yet `x + y` on a tracer must find `numpy.add`,
and a primitive bound outside every transform must run. The front door fills these slots once, at import.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Hooks", "hooks"]


class Hooks:
    """The slots; see the module's docstring. `numpy`: namespace with the operator functions."""

    __slots__ = (
        "account_keys", "array_type", "as_array", "check_indices", "dim_value", "discharge", "evaluate", "instrument", "key_kernel", "numpy",
        "physicalize", "report", "sharding_of", "spread", "spread_of", "take_references",
    )  # fmt: skip
    account_keys: Any  # (primitive, operands, params, outputs): raises where a random key is spent twice
    check_indices: Any  # (index values of a program, size, axis): checks them when the program runs
    discharge: (
        Any  # (jaxpr with checks) -> jaxpr that has them as results, types of these, how to raise for their values
    )
    evaluate: Any  # (primitive, operands, params) -> tuple of Arrays
    as_array: Any  # (array-like, no tracer) -> Array
    array_type: Any  # the concrete Array class
    dim_value: Any  # (size that is not known yet) -> its value in the program
    numpy: Any
    instrument: Any  # jaxpr -> jaxpr with automatic checks
    key_kernel: Any  # (primitive with keys, avals, params, outs, compiled kernel) -> how it runs on Arrays
    physicalize: Any  # (jaxpr with random keys) -> jaxpr over their words
    report: Any  # (jaxpr with checks) -> jaxpr that has them as results, and the table of checks
    sharding_of: Any  # aval -> how the explicit axes of a mesh cut it, as a NamedSharding
    spread: Any  # (primitive, avals, output avals, params) -> how the outputs lie on explicit mesh axes
    spread_of: Any  # (sharding, number of axes) -> what it says of the explicit axes of its mesh
    take_references: (
        Any  # (staging trace, whether it is derived) -> what collects the mutable references that are touched in it
    )


hooks = Hooks()
