# SPDX-License-Identifier: Apache-2.0
"""All samples of `tests/primitives`, `tests/nn` and `tests/scipy`, and the evaluator that runs primitives by their NumPy reference."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np

import tests.nn
import tests.primitives
import tests.scipy
from purax import dtypes
from purax.core import trace
from purax.core.hooks import hooks
from purax.core.primitive import registry
from purax.pipeline.evaluate import as_array, evaluate, quiet
from purax.runtime.array import wrap_host
from tests.laws.sample import BadSample, Sample


def _collect(name: str) -> list[Any]:
    found = []
    for package in (tests.primitives, tests.nn, tests.scipy):
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
            if info.name.startswith("test_"):
                module = importlib.import_module(f"{package.__name__}.{info.name}")
                found += getattr(module, name, [])
    return found


SAMPLES: list[Sample] = _collect("SAMPLES")
BAD_SAMPLES: list[BadSample] = _collect("BAD_SAMPLES")

_PROGRAM = "holds a program"
# Primitives that are no function of arrays alone, and why.
WITHOUT_SAMPLES: dict[str, str] = dict.fromkeys(
    (
        "checkpoint",
        "checkpoint_tangent",
        "composite",
        "cond",
        "custom_jvp_call",
        "custom_linear",
        "custom_linear_solve",
        "custom_vjp_call",
        "custom_vmap_call",
        "forward_only",
        "rewound",
        "jit",
        "random_gamma",
        "reduce",
        "scan",
        "scatter_apply",
        "shard_map",
        "while",
    ),
    _PROGRAM,
) | {
    "inspect_sharding": "has no result: it looks at placements, see tests/control/test_sharding_view.py",
    "check": "has no result: it raises, see tests/control/test_check.py",
    "debug_callback": "calls Python, see tests/control/test_debugging.py",
    "ffi_call": "what a kernel computes is known to its author alone",
    "io_callback": "calls Python, see tests/control/test_callback.py",
    "pure_callback": "calls Python, see tests/control/test_callback.py",
    "dimension": "its value is known when an exported program is called",
    "exported": "its program is text",
    "name": "means something to checkpoint policies only",
    "platform_index": "its value is known when a program is compiled, see tests/control/test_branch.py",
    "reshard": "means something on a mesh only, see tests/control/test_explicit.py",
    "dot_general_terms": "differs from dot_general on a mesh only, see tests/control/test_explicit.py",
    "reduce_sum_terms": "differs from reduce_sum on a mesh only, see tests/control/test_explicit.py",
    "rng_bit_generator": "its bits are the platform's choice",
    "rng_uniform": "its numbers are the platform's choice",
    "shard_alike": "means something on a mesh only, see tests/control/test_abstract_mesh.py",
    "sharding_constraint": "means something on a mesh only",
}


def without_samples() -> list[str]:
    """Names of the primitives that have neither samples nor a reason to have none."""
    sampled = {s.primitive.name for s in SAMPLES}
    return sorted({name.split("[")[0] for name in registry} - sampled - set(WITHOUT_SAMPLES))


def label(sample: Any) -> str:
    """Name of a sample in test ids."""
    return str(sample)


def reference_evaluate(primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    """Evaluate on the host by `reference`, whatever the primitive: derivative programs then compile nothing."""
    arrays = [as_array(x) for x in operands]
    for x in arrays:
        if isinstance(x, trace.Tracer):
            trace.check_escape(x, None)
    avals = primitive.outputs(tuple(x.aval for x in arrays), params)
    if "impl" in params or any(isinstance(x.dtype, dtypes.KeyDtype) for x in arrays):  # keys move as ever
        return evaluate(primitive, operands, params)
    if primitive.run is not None:
        return primitive.run(tuple(arrays), params)
    values = quiet(primitive.reference, *[x.host for x in arrays], **params)
    return tuple(wrap_host(a, np.asarray(v).astype(a.dtype, copy=False)) for a, v in zip(avals, values, strict=True))


@contextlib.contextmanager
def on_reference() -> Iterator[None]:
    """Evaluate primitives by their NumPy reference inside the context."""
    saved = hooks.evaluate
    hooks.evaluate = reference_evaluate
    try:
        yield
    finally:
        hooks.evaluate = saved


def is_float(x: Any) -> bool:
    """Whether the operand has a floating or complex dtype."""
    return isinstance(x.dtype, np.dtype) and dtypes.is_inexact(x.dtype)


def differentiable(sample: Sample) -> tuple[int, ...]:
    """Positions that derivatives are checked against."""
    if sample.differentiable is not None:
        return sample.differentiable
    return tuple(i for i, x in enumerate(sample.operands) if is_float(x))


def widened(x: np.ndarray) -> np.ndarray:
    """Floats as float64 and complex numbers as complex128, so that finite differences say something."""
    if not is_float(x):
        return x
    return x.astype(np.complex128 if np.dtype(x.dtype).kind == "c" else np.float64)
