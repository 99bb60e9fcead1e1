# SPDX-License-Identifier: Apache-2.0
"""What arguments are drawn from: shapes, dtypes, values and memory layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

DTYPES: dict[str, tuple[Any, ...]] = {
    "b": (np.bool_,),
    "i": (np.int32, np.int8, np.int16, np.int64),
    "u": (np.uint8, np.uint16, np.uint32, np.uint64),
    "f": (np.float32, np.float16, np.float64),
    "h": (ml_dtypes.bfloat16,),
    "c": (np.complex64, np.complex128),
}
NUMBERS, REALS, FLOATS, INEXACT, INTEGERS = "iufhc", "iufh", "fh", "fhc", "iu"
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5])


def kind_of(dtype: Any) -> str:
    """The letter of `DTYPES` that a dtype belongs to."""
    dtype = np.dtype(dtype)
    return "h" if dtype == ml_dtypes.bfloat16 else dtype.kind


class Drawer:
    """Draws what a function is called with. A choice that comes first is what a failing example shrinks to."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def one_of(self, *options: Any) -> Any:
        """One of several values."""
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return self.draw(st.integers(low, high))

    def shape(self, low: int = 0, high: int = 3, sizes: Sequence[int] = (2, 1, 3, 0)) -> tuple[int, ...]:
        """A shape of `low` to `high` dimensions."""
        return tuple(self.one_of(*sizes) for _ in range(self.integer(low, high)))

    def dtype(self, kinds: str) -> Any:
        """A dtype of one of the kinds."""
        return np.dtype(self.one_of(*DTYPES[self.one_of(*kinds)]))

    def axis(self, ndim: int) -> int:
        """An axis of an array, counted from either end."""
        return self.integer(-ndim, ndim - 1) if ndim else 0

    def axes(self, ndim: int) -> Any:
        """What a reduction takes as axis: None, an axis, or several."""
        several = tuple(a for a in range(ndim) if self.one_of(True, False))
        return self.one_of(None, several, *range(-ndim, ndim))

    def generator(self) -> np.random.Generator:
        """A source of values; one number is drawn in place of each of them."""
        return np.random.default_rng(self.integer(0, 999))

    def array(
        self,
        kinds: str = "biufhc",
        shape: tuple[int, ...] | None = None,
        low: float = -6,
        high: float = 6,
        special: bool = True,
        dtype: Any = None,
        plain: bool = False,
    ) -> np.ndarray:
        """An array with values between `low` and `high`, with NaN, infinities and ends of the range if `special`.

        Its memory is laid out in one of many ways, unless `plain`.
        """
        shape = self.shape() if shape is None else shape
        dtype = self.dtype(kinds) if dtype is None else np.dtype(dtype)
        values = self.values(shape, dtype, low, high, special)
        if plain:
            return values
        if values.ndim and self.one_of(False, False, False, False, False, True):
            return np.broadcast_to(values[:1], shape)
        return self.layout(values)

    def values(self, shape: tuple[int, ...], dtype: Any, low: float, high: float, special: bool) -> np.ndarray:
        """Values of a dtype, in plain memory."""
        rng, kind = self.generator(), kind_of(dtype)
        if kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        mixed = special and self.one_of(True, False)
        if kind in "iu":
            info = np.iinfo(dtype)
            values = rng.integers(max(info.min, int(np.ceil(low))), int(high) + 1, shape).astype(dtype)
            ends = np.array([info.min, info.max, 0, 1], dtype)
            return np.where(rng.random(shape) < 0.3, rng.choice(ends, shape), values) if mixed else values
        values = rng.uniform(low, high, shape)
        if kind == "c":
            values = values + 1j * rng.uniform(low, high, shape)
        if mixed:
            values = np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), values)
        return np.asarray(values).astype(dtype)

    def layout(self, values: np.ndarray) -> np.ndarray:
        """The same values in memory that is reversed, strided, transposed or read-only."""
        how = self.one_of("plain", "reversed", "strided", "fortran", "readonly")
        if how == "reversed" and values.ndim:
            turn = (slice(None, None, -1),) * values.ndim
            return np.ascontiguousarray(values[turn])[turn]
        if how == "strided" and values.ndim:
            wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
            wide[..., ::2] = values
            return wide[..., ::2]
        if how == "fortran":
            return values.copy(order="F")
        values.flags.writeable = how != "readonly"
        return values

    def number(self, low: float = -4, high: float = 4) -> Any:
        """A Python scalar."""
        return self.one_of(True, int(high), int(low), high / 3, low / 3)

    def positive_definite(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Hermitian matrices with eigenvalues of 1 and more."""
        root = self.array(shape=shape, low=-1, high=1, special=False, dtype=dtype, plain=True)
        wide = root.astype(np.complex128 if kind_of(dtype) == "c" else np.float64)
        return self.layout((wide @ np.swapaxes(wide, -1, -2).conj() + np.eye(shape[-1])).astype(dtype))

    def matrices(
        self,
        kinds: str = "fc",
        rows: int | None = None,
        columns: int | None = None,
        lead: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        """A matrix or a stack of them, square unless the sizes differ, far from singular."""
        rows = self.one_of(2, 3, 1) if rows is None else rows
        columns = rows if columns is None else columns
        shape = (*(self.shape(0, 1) if lead is None else lead), rows, columns)
        dtype = self.wide(kinds)
        values = self.array(shape=shape, low=-1, high=1, special=False, dtype=dtype, plain=True)
        return self.layout((values + 3 * np.eye(rows, columns)).astype(dtype))

    def wide(self, kinds: str = "fc") -> Any:
        """A dtype that linear algebra and transforms work in."""
        dtype = self.dtype(kinds)
        return np.dtype(np.float32) if dtype == np.float16 else dtype

    def pair(self, kinds: str = "biufhc", **options: Any) -> tuple[Any, Any]:
        """Two operands that broadcast: arrays of one dtype or of two, or an array and a Python scalar."""
        shape = self.shape()
        first = self.array(kinds, shape, **options)
        how = self.one_of("same", "row", "mixed", "scalar")
        if how == "scalar" and first.dtype.kind not in ("b", "u"):
            return first, self.one_of(2, 1) if first.dtype.kind == "i" else self.one_of(1.5, 2, 0.25)
        if how == "row":
            return first, self.array(kinds, shape[1:], dtype=first.dtype, **options)
        if how == "mixed":
            return first, self.array(kinds, tuple(self.one_of(n, 1) for n in shape), **options)
        return first, self.array(kinds, shape, dtype=first.dtype, **options)
