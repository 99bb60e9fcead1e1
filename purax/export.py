# SPDX-License-Identifier: Apache-2.0
"""Functions to keep: StableHLO with its calling convention, as in `jax.export`. Nothing is defined here."""

from purax.control.export_format import deserialize as deserialize
from purax.control.export_format import register_namedtuple_serialization as register_namedtuple_serialization
from purax.control.export_format import register_pytree_node_serialization as register_pytree_node_serialization
from purax.control.exported import CALLING_CONVENTION as maximum_supported_calling_convention_version
from purax.control.exported import OLDEST_CALLING_CONVENTION as minimum_supported_calling_convention_version
from purax.control.exported import DisabledSafetyCheck as DisabledSafetyCheck
from purax.control.exported import Exported as Exported
from purax.control.exported import default_export_platform as default_export_platform
from purax.control.exported import export as export
from purax.control.open_shapes import is_symbolic_dim as is_symbolic_dim
from purax.control.open_shapes import symbolic_args_specs as symbolic_args_specs
from purax.control.open_shapes import symbolic_shape as symbolic_shape
from purax.core.dims import SymbolicScope as SymbolicScope

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]
