# SPDX-License-Identifier: Apache-2.0
"""Where purax answers differently from NumPy and SciPy on purpose; whatever is not in this list is a fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.differential.entry import Call

# The section of docs/differences.md that a difference belongs to, or JAX: the answer is JAX's, which is not NumPy's.
JAX, DERIVATIVES = "JAX", "Derivatives"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference on purpose.

    Attributes
    ----------
    names : str
        The functions of a module that it is seen in, separated by blanks.
    part : str
        How the description of the fault begins: what differs.
    kind : str
    reason : str
    holds : function of a Call to bool
        For which arguments it is expected.
    """

    names: str
    part: str
    kind: str
    reason: str
    holds: Callable[[Call], Any] = lambda made: True


DTYPE, SIGN, VALUE = "dtype", "signs of zeros", "array"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "numpy.cumsum numpy.cumprod numpy.nancumsum numpy.nancumprod numpy.apply_over_axes",
        DTYPE,
        JAX,
        "running sums and products keep the dtype of integers",
    ),
    Difference(
        "numpy.digitize numpy.searchsorted numpy.ravel_multi_index numpy.unravel_index",
        DTYPE,
        JAX,
        "places have 32 bits, or the dtype of the places that are given",
    ),
    Difference("numpy.vander", DTYPE, JAX, "powers have the dtype of the numbers"),
    Difference("numpy.convolve numpy.correlate numpy.polymul", DTYPE, JAX, "convolutions are of floating dtype"),
    Difference("numpy.linalg.matrix_rank", DTYPE, JAX, "a rank has 32 bits"),
    Difference("scipy.cluster.vq.vq", DTYPE, JAX, "places have the default integer dtype"),
    Difference(
        "numpy.remainder numpy.mod numpy.divmod",
        SIGN,
        DERIVATIVES,
        "a remainder of zero has the sign of the dividend: to turn it would cost the derivative",
    ),
    Difference("numpy.sign", SIGN, JAX, "the sign of -0.0 is -0.0"),
    Difference(
        "numpy.sign",
        VALUE,
        JAX,
        "infinite complex numbers have no direction",
        lambda made: made.args[0].dtype.kind == "c",
    ),
    Difference("scipy.special.digamma", VALUE, JAX, "the pole at 0 is NaN, as the other poles are"),
    Difference("scipy.special.spence", VALUE, JAX, "the limit at infinity is minus infinity, where SciPy has NaN"),
)


def expected(name: str, fault: str, made: Call) -> Difference | None:
    """The difference that explains a fault, if one does."""
    short = name.removeprefix("purax.")
    return next(
        (d for d in DIFFERENCES if short in d.names.split() and fault.startswith(d.part) and d.holds(made)), None
    )
