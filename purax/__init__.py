# SPDX-License-Identifier: Apache-2.0
"""purax: composable transformations of array programs, compiled by XLA."""

import importlib as _importlib
from typing import Any as _Any

from purax import interrupts as _interrupts
from purax import config as config
from purax import errors as errors
from purax import numpy as numpy
from purax import tree as tree
from purax import tree_util as tree_util
from purax.contexts import *
from purax.control.callback import pure_callback as pure_callback
from purax.control.check import check as check
from purax.control.chunked import vmap as vmap
from purax.control.discharge import discharge as _discharge
from purax.control.custom import closure_convert as closure_convert
from purax.control.custom import custom_gradient as custom_gradient
from purax.control.custom import custom_jvp as custom_jvp
from purax.control.custom import custom_vjp as custom_vjp
from purax.control.export_format import load as load
from purax.control.jit import jit as jit
from purax.control.pmap import pmap as pmap
from purax.control.refs import Ref as Ref
from purax.control.refs import empty_ref as empty_ref
from purax.control.refs import free_ref as free_ref
from purax.control.refs import freeze as freeze
from purax.control.refs import new_ref as new_ref
from purax.control.remat import checkpoint as checkpoint
from purax.control.remat import checkpoint as remat
from purax.control.remat import checkpoint_policies as checkpoint_policies
from purax.control.shard_map import shard_map as shard_map
from purax.control.shard_map import smap as smap
from purax.control.known import ensure_compile_time_eval as ensure_compile_time_eval
from purax.control.staging import *
from purax.core.aval import ShapeDtypeStruct as ShapeDtypeStruct
from purax.core.hooks import hooks as _hooks
from purax.core.operators import Operators as Array
from purax.dtypes import float0 as float0
from purax.runtime.client import default_backend as default_backend
from purax.runtime.client import device_count as device_count
from purax.runtime.client import devices as devices
from purax.runtime.client import local_device_count as local_device_count
from purax.runtime.client import local_devices as local_devices
from purax.runtime.client import make_mesh as make_mesh
from purax.runtime.client import process_count as process_count
from purax.runtime.client import process_index as process_index
from purax.runtime.client import process_indices as process_indices
from purax.runtime.array import Shard as Shard
from purax.runtime.transfer import make_array_from_callback as make_array_from_callback
from purax.runtime.transfer import make_array_from_process_local_data as make_array_from_process_local_data
from purax.runtime.transfer import (
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from purax.sharding import NamedSharding as NamedSharding
from purax.sharding import P as P
from purax.sharding.mesh import set_mesh as set_mesh
from purax.control.explicit import reshard as reshard
from purax.transforms.jacobian import hessian as hessian
from purax.transforms.jacobian import jacfwd as jacfwd
from purax.transforms.jacobian import jacrev as jacrev
from purax.transforms.jacobian import jacrev as jacobian
from purax.transforms.jvp import jvp as jvp
from purax.transforms.grad import grad as grad
from purax.transforms.vjp import linearize as linearize
from purax.transforms.grad import value_and_grad as value_and_grad
from purax.transforms.vjp import vjp as vjp
from purax.transforms.transpose import linear_transpose as linear_transpose


__version__ = "0.1.0"

_hooks.numpy = numpy

# Loaded on first use: most programs need few of them, and import time is a feature.
_LAZY = frozenset({
    "ad", "ad_checkpoint", "api_util", "core", "custom_batching", "custom_derivatives", "data", "debug", "dlpack", "dtypes",
    "events", "example_libraries", "experimental", "export", "extend", "ffi", "flatten_util", "image", "interpreters", "lax", "linen", "nn", "ops", "optim", "random", "ref",
    "scipy", "sharding", "stages", "test_util", "tools", "train", "typing",
})  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        try:
            return _importlib.import_module(f"purax.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"purax.{name}":
                raise
    if name == "Device":
        return _importlib.import_module("purax.runtime._jaxlib").Device
    raise AttributeError(f"module 'purax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "Device"} - {"_Any", "_LAZY", "_hooks", "_importlib"})
