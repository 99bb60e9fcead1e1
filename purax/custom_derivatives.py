# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.custom_derivatives`."""

from purax.control.custom import CustomVJPPrimal as CustomVJPPrimal
from purax.control.custom import SymbolicZero as SymbolicZero
from purax.control.custom import closure_convert as closure_convert
from purax.control.custom import custom_gradient as custom_gradient
from purax.control.custom import custom_jvp as custom_jvp
from purax.control.custom import custom_jvp_call_p as custom_jvp_call_p
from purax.control.custom import custom_vjp as custom_vjp
from purax.control.custom import custom_vjp_call_p as custom_vjp_call_p
from purax.control.custom import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from purax.control.custom import zero_from_primal as zero_from_primal
