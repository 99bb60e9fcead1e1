# SPDX-License-Identifier: Apache-2.0
"""Checks as results of functions, under the names of `jax.experimental.checkify`."""

from purax.control.checkify import Error as Error
from purax.control.checkify import ErrorCategory as ErrorCategory
from purax.control.checkify import all_checks as all_checks
from purax.control.checkify import automatic_checks as automatic_checks
from purax.control.checkify import check as check
from purax.control.checkify import check_error as check_error
from purax.control.checkify import checkify as checkify
from purax.control.checkify import debug_check as debug_check
from purax.control.checkify import div_checks as div_checks
from purax.control.checkify import float_checks as float_checks
from purax.control.checkify import index_checks as index_checks
from purax.control.checkify import init_error as init_error
from purax.control.checkify import nan_checks as nan_checks
from purax.control.checkify import user_checks as user_checks
from purax.errors import CheckError as JaxRuntimeError

__all__ = [
    "Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks", "check", "check_error", "checkify", "debug_check",
    "div_checks", "float_checks", "index_checks", "init_error", "nan_checks", "user_checks",
]  # fmt: skip
