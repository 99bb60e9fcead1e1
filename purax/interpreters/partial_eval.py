# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.interpreters.partial_eval` that purax has."""

from purax.control.known import PartialVal, trace_to_jaxpr_dynamic, trace_to_jaxpr_nounits

__all__ = ["PartialVal", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits"]
