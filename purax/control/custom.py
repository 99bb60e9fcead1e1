# SPDX-License-Identifier: Apache-2.0
"""Derivative rules given by users: the names of `custom_jvp.py`, `custom_vjp.py` and `closure.py` in one place."""

from purax.control.closure import closure_convert, custom_gradient
from purax.control.custom_jvp import custom_jvp, custom_jvp_call_p
from purax.control.custom_rules import SymbolicZero, zero_from_primal
from purax.control.custom_vjp import CustomVJPPrimal, custom_vjp, custom_vjp_call_p, custom_vjp_primal_tree_values

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p", "custom_vjp",
    "custom_vjp_call_p", "custom_vjp_primal_tree_values", "zero_from_primal",
]  # fmt: skip
