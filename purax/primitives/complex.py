# SPDX-License-Identifier: Apache-2.0
"""Parts of complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import dtypes
from purax.core.trace import aval_of
from purax.primitives import cast, elementwise, operands, shape
from purax.primitives.base import is_linear
from purax.primitives.family import COMPLEX, Elementwise, Kinds

__all__ = ["complex", "complex_p", "conj", "conj_p", "imag", "imag_p", "real", "real_p"]

_PARTS = Kinds("float32 or float64", (dtypes.float32, dtypes.float64))


def _join(real: Any, imag: Any) -> np.ndarray:
    out = np.empty(real.shape, dtypes.to_complex(real.dtype))
    out.real, out.imag = real, imag
    return out


def _zero_like(x: Any) -> Any:
    return shape.full_like_aval(x.aval if hasattr(x, "aval") else aval_of(x), 0)


real_p = Elementwise(
    "real", COMPLEX, "stablehlo.real", lambda x: x.real, lambda t, y, x: real(t),
    result=dtypes.real_dtype, transposed=lambda ct, x: (complex(ct, _zero_like(ct)),), exact=True,
)  # fmt: skip

# The transposes are those of linear maps over the complex numbers, without conjugation: <imag(z), c> = <z, -i c>.
imag_p = Elementwise(
    "imag", COMPLEX, "stablehlo.imag", lambda x: x.imag, lambda t, y, x: imag(t),
    result=dtypes.real_dtype, transposed=lambda ct, x: (complex(_zero_like(ct), elementwise.neg(ct)),), exact=True,
)  # fmt: skip

complex_p = Elementwise(
    "complex", (_PARTS, _PARTS), "stablehlo.complex", _join,
    lambda t, z, x, y: complex(t, _zero_like(t)), lambda t, z, x, y: complex(_zero_like(t), t),
    result=dtypes.to_complex, exact=True,
    transposed=lambda ct, x, y: (
        real(ct) if is_linear(x) else None, elementwise.neg(imag(ct)) if is_linear(y) else None,
    ),
)  # fmt: skip


def _lower_conj(b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
    return b.inline(lambda x: complex(real(x), elementwise.neg(imag(x))), ins)


conj_p = Elementwise(
    "conj", COMPLEX, _lower_conj, np.conjugate, lambda t, y, x: conj(t),
    transposed=lambda ct, x: (conj(ct),), exact=True,
)  # fmt: skip


def real(x: Any) -> Any:
    """Real part of each element: complex[...] -> float[...]."""
    return real_p.bind1(operands.lift(x))


def imag(x: Any) -> Any:
    """Imaginary part of each element: complex[...] -> float[...]."""
    return imag_p.bind1(operands.lift(x))


def complex(x: Any, y: Any) -> Any:
    """Complex number `x + i y` of each pair of elements: float[...], float[...] -> complex[...]."""
    return complex_p.bind1(*operands.coerce("complex", x, y))


def conj(x: Any) -> Any:
    """Complex conjugate of each element; a real operand becomes complex: inexact[...] -> complex[...]."""
    x = operands.lift(x)
    if not dtypes.is_complex(x.aval.dtype):
        x = cast.convert_element_type_p.bind1(x, new_dtype=dtypes.to_complex(x.aval.dtype), weak_type=x.aval.weak_type)
    return conj_p.bind1(x)
