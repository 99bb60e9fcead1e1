# SPDX-License-Identifier: Apache-2.0
"""Samples: what the author of a primitive supplies; the laws run over all of them."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Sample:
    """A valid application of a primitive.

    Attributes
    ----------
    primitive : Primitive
    operands : tuple of numpy.ndarray
    params : dict
    differentiable : tuple of int or None
        Operands that derivatives are checked against; None means all of floating or complex dtype, () none.
    tolerance : float or None
        Relative tolerance against `reference` and finite differences; None means the dtype's default.
    linear : tuple of int or None
        Operands in which the primitive is jointly linear (checked by the transpose law); None: do not check.
    """

    primitive: Any
    operands: tuple[Any, ...]
    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    differentiable: tuple[int, ...] | None = None
    tolerance: float | None = None
    linear: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shapes = ",".join(f"{o.dtype}{list(o.shape)}" for o in self.operands)
        return f"{self.primitive.name}({shapes})"


@dataclasses.dataclass(frozen=True)
class BadSample:
    """An invalid application and the error that it must raise (class and a part of the message)."""

    primitive: Any
    operands: tuple[Any, ...]
    params: dict[str, Any]
    error: type[Exception]
    message: str

    def __str__(self) -> str:
        return f"bad {self.primitive.name}: {self.message}"
