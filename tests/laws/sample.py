# SPDX-License-Identifier: Apache-2.0
"""Samples: what the author of a primitive supplies; the laws run over all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import purax.transforms.keys  # noqa: F401  (how keys run)
from purax import dtypes
from purax.core.axes import Axis
from purax.core.trace import aval_of
from purax.pipeline.evaluate import quiet
from purax.primitives.random_bits import random_unwrap_p, random_wrap_p
from purax.transforms.vmap import batch_flat, to_front


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

    def apply(self, *operands: Any) -> Any:
        """Outputs of the primitive, in the current trace."""
        return self.primitive.bind(*operands, **self.params)

    def reference(self, *operands: Any) -> Any:
        """What they should be, as NumPy arrays."""
        return quiet(self.primitive.reference, *operands, **self.params)

    def exact(self) -> bool:
        """Whether the compiled program must agree to the last bit."""
        exact = self.primitive.exact
        return exact if isinstance(exact, bool) else exact(tuple(aval_of(x) for x in self.operands), self.params)


@dataclasses.dataclass(frozen=True)
class KeySample(Sample):
    """A primitive of random keys, as a function of words: `keys` are the positions of operands that stand for keys."""

    keys: tuple[int, ...] = (0,)

    def apply(self, *operands: Any) -> Any:
        """Words in place of keys, in and out."""
        impl = self.params["impl"]
        made = [random_wrap_p.bind1(x, impl=impl) if i in self.keys else x for i, x in enumerate(operands)]
        outs = self.primitive.bind(*made, **self.params)
        return tuple(random_unwrap_p.bind1(x, impl=impl) if isinstance(x.dtype, dtypes.KeyDtype) else x for x in outs)

    def exact(self) -> bool:
        """Bits are bits."""
        return True


@dataclasses.dataclass(frozen=True)
class LaneSample(Sample):
    """A collective among the lanes of axis "i", as a function of the stacked operands of all lanes.

    `meaning` takes the stacked operands and gives the tuple of stacked outputs, in NumPy. `lanes` is their number.
    """

    meaning: Callable[..., Any] | None = None
    lanes: int = 4

    def apply(self, *operands: Any) -> Any:
        """The primitive in all lanes of a mapped axis."""
        outs, dims = batch_flat(super().apply, Axis("i", self.lanes), operands, (0,) * len(operands))
        return tuple(to_front(x, d, self.lanes) for x, d in zip(outs, dims, strict=True))

    def reference(self, *operands: Any) -> Any:
        """What the sample says."""
        return quiet(self.meaning, *operands)

    def exact(self) -> bool:
        """Sums may be taken in any order."""
        return False


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
