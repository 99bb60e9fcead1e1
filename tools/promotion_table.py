# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/promotion.txt: at which dtype each pair of dtypes and Python scalars meets in an installed JAX.

Run it with an interpreter that has JAX 0.10.2: `python tools/promotion_table.py`. One block per promotion mode and width;
a row and a column per operand; `-` where the pair is refused, `.` where the operand does not exist with 32-bit defaults,
and a star behind weak results.
"""

import sys
from pathlib import Path

import jax
import ml_dtypes
import numpy as np

SIZED = (
    "bool int1 int2 int4 int8 int16 int32 int64 uint1 uint2 uint4 uint8 uint16 uint32 uint64 float4_e2m1fn float6_e2m3fn "
    "float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float16 bfloat16 float32 float64 complex64 complex128"
).split()
WEAK = {"int*": 1, "float*": 1.0, "complex*": 1j}
WIDE = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def meet(a: str, b: str, x64: bool) -> str:
    """Return the entry of the table for two operands."""
    if not x64 and (a in WIDE or b in WIDE):
        return "."
    operands = [WEAK[name] if name in WEAK else np.dtype(getattr(ml_dtypes, name, name)) for name in (a, b)]
    try:
        # The public result_type does not tell whether the result is weak.
        dtype, weak = jax._src.dtypes.lattice_result_type(*operands)
    except jax.dtypes.TypePromotionError:
        return "-"
    name = str(dtype)
    return (name if x64 else WIDE.get(name, name)) + "*" * bool(weak)


def main() -> None:
    """Write the file."""
    names = [*SIZED, *WEAK]
    lines = ["operands " + " ".join(names)]
    for mode in ("standard", "strict"):
        for x64 in (True, False):
            jax.config.update("jax_numpy_dtype_promotion", mode)
            jax.config.update("jax_enable_x64", x64)
            lines.append(f"table {mode} {64 if x64 else 32}")
            lines += [" ".join(meet(a, b, x64) for b in names) for a in names]
    path = Path(__file__).resolve().parent.parent / "tests" / "data" / "promotion.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {path} with JAX {jax.__version__}\n")


if __name__ == "__main__":
    main()
