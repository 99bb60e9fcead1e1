# SPDX-License-Identifier: Apache-2.0
"""`check`: a condition that values must meet while a program runs.

A check is an equation with an effect and no result. Evaluated at once, it raises. Before a program is compiled, its checks are
*discharged* (`discharge.py`): the program gets one more result, the number of the first check that failed, and with it the values
for that check's message. Whoever runs the program looks at the number and raises. So checks call nothing from the device, work on
every platform, and know the step of each loop and the lane of each map around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from purax import config, dtypes, errors, tree
from purax.control.formatting import check_fields, formatted
from purax.core.aval import array_aval
from purax.core.effects import CHECK
from purax.core.hooks import hooks
from purax.core.primitive import Primitive
from purax.core.source import current_source, format_source
from purax.core.trace import aval_of
from purax.primitives import bits, cast, comparison, elementwise, reduction, shape, slicing
from purax.runtime.array import Array
from purax.runtime.transfer import put

__all__ = ["Site", "Table", "check", "check_indices", "check_p", "exception_of", "reporting", "single"]

# Within `checkify`, which reports what goes wrong instead of raising it: known indices out of bounds do not raise either.
reporting: ContextVar[bool] = ContextVar("reporting", default=False)

INT32 = np.dtype(np.int32)
CODE = array_aval((), INT32)


class Site(NamedTuple):
    """One check of a program.

    Attributes
    ----------
    kind : type
        Class of the exception.
    text : str
        The message, with fields.
    tree : structure
        Of `(args, kwargs)` for the fields.
    slots : tuple of int
        Where the leaves of these are found.
    steps : tuple of int
        Where the counters of the loops are found, outermost first.
    lane : int or None
        Where the numbers of the lane are found.
    source : Source or None
        The user's line; None where it is the line that runs the check.
    """

    kind: type[errors.CheckError]
    text: str
    tree: Any
    slots: tuple[int, ...]
    steps: tuple[int, ...]
    lane: int | None
    source: Any

    def moved(self, place: Sequence[int]) -> Site:
        """The site where slot `i` is `place[i]`."""
        return self._replace(
            slots=tuple([place[i] for i in self.slots]), steps=tuple([place[i] for i in self.steps]),
            lane=None if self.lane is None else place[self.lane],
        )  # fmt: skip


class Table(NamedTuple):
    """The checks of a program: site `k` failed where the code is `k + 1`; `slots` are the types of the values for messages."""

    sites: tuple[Site, ...]
    slots: tuple[Any, ...]


def single(kind: type[errors.CheckError], text: str, args_tree: Any, avals: Sequence[Any], source: Any) -> Table:
    """The table of one check whose message takes values of these types.

    Parameters
    ----------
    kind : class of errors.CheckError
    text : str
        The message, with fields.
    args_tree : structure
        Of `(args, kwargs)` of the fields.
    avals : sequence of aval
    source : Source or None
        Where the check stands.

    Returns
    -------
    Table
    """
    return Table((Site(kind, text, args_tree, tuple(range(len(avals))), (), None, source),), tuple(avals))


def exception_of(table: Table, code: int, values: Sequence[np.ndarray], lane: Sequence[int] = ()) -> errors.CheckError:
    """The exception of the check that failed; `lane` is where it was found, beside what the values tell.

    Parameters
    ----------
    table : Table
    code : int
        The number of the check, from 1 on.
    values : sequence of NumPy arrays
    lane : sequence of int

    Returns
    -------
    errors.CheckError
    """
    site = table.sites[code - 1]
    args, kwargs = site.tree.unflatten([values[i] for i in site.slots])
    text = formatted(site.text, args, kwargs)
    inner = [] if site.lane is None else values[site.lane].tolist()
    lanes, steps = (*map(int, lane), *inner), tuple([int(values[i]) for i in site.steps])
    where = [f"lane {', '.join(map(str, lanes))}"] if lanes else []
    where += [f"step {', '.join(map(str, steps))}"] if steps else []
    line = format_source(site.source or current_source())
    error = site.kind(f"{text} ({', '.join([*where, f'at {line}'])})")
    error.lane, error.steps = lanes, steps
    return error


def first_failure(table: Table, code: np.ndarray, slots: Sequence[np.ndarray]) -> errors.CheckError | None:
    """The exception of the first lane that failed, or None."""
    if not code.any():
        return None
    lane = tuple(np.argwhere(code)[0])
    return exception_of(table, int(code[lane]), [x[lane] for x in slots], lane)


class Check(Primitive):
    """Operands are codes of lanes (zero: nothing failed) and the values for messages; no result.

    Params
    ------
    table : Table
    lanes : int
        How many axes of lanes all operands have in front.
    debug : bool
        Only checked where the program is `checkify`ed.
    """

    def infer(self, *avals: Any, **_: Any) -> Any:
        """No results."""
        return ()

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """It may raise."""
        return frozenset((CHECK,))

    def reference(self, *operands: Any, table: Table, lanes: int, debug: bool) -> Any:
        """Raise, if a code is not zero."""
        error = None if debug else first_failure(table, operands[0], operands[1:])
        if error is not None:
            raise error
        return ()

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Look at the codes now."""
        arrays = [x if type(x) is Array else put(x, aval_of(x)) for x in operands]
        return self.reference(*[x.host for x in arrays], **params)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Checks look at values."""
        return self.bind(*primals, **params), ()

    def transpose(self, cotangents: Any, operands: Any, **_: Any) -> Any:
        """Nothing to pull back."""
        return (None,) * len(operands)

    def batch(self, axis: Any, operands: Any, dims: Any, *, table: Table, lanes: int, debug: bool) -> Any:
        """One axis of lanes more."""
        moved = [
            shape.broadcast_batch(x, axis.size, 0) if d is None else shape.move_batch_axis(x, d, 0)
            for x, d in zip(operands, dims, strict=True)
        ]
        return self.bind(*moved, table=table, lanes=lanes + 1, debug=debug), ()

    def lower(self, b: Any, ins: Any, outs: Any, *, debug: bool, **_: Any) -> Any:
        """Nothing is left of a discharged check; another one is where no rule reached it."""
        if not debug:
            raise errors.MissingRuleError(
                "a check is inside of an operation that cannot hand out its result; move the check out of it"
            )
        return []


check_p = Check("check")


def check(pred: Any, message: str, *args: Any, **kwargs: Any) -> None:
    """Raise where a condition does not hold, in eager code and in programs.

    Parameters
    ----------
    pred : bool scalar
        What must be true.
    message : str
        Text with fields, as for `str.format`.
    *args, **kwargs : pytrees of arrays
        What the fields name.

    Raises
    ------
    FailedCheckError
        The condition is false: at once in eager code, else when the program has run. The message tells the lane of `vmap`, the
        step of each loop and the line; the exception has them as `lane` and `steps`.
    TypeError
        `pred` is no scalar, or an argument is no array.

    Notes
    -----
    ``config.update("checks", False)`` leaves all checks out of what is traced from then on.
    """
    if config.current().checks:
        bind_check("check", pred, message, args, kwargs, debug=False)


def bind_check(name: str, pred: Any, message: str, args: Any, kwargs: Any, debug: bool) -> None:
    """The flat form of `check` and `debug_check`."""
    aval = _scalar_bool(name, pred)
    check_fields(f"purax.{name}", message, args, kwargs)
    leaves, args_tree = tree.flatten((args, kwargs))
    for leaf in leaves:
        try:
            aval_of(leaf)
        except TypeError:
            raise TypeError(
                f"{name}: Formatting arguments must be arrays or pytrees of them, got {leaf!r} of type {type(leaf).__name__}."
            ) from None
    if aval.dtype != np.bool_:
        pred = cast.convert_element_type(pred, np.bool_)
    table = single(errors.FailedCheckError, message, args_tree, [aval_of(x) for x in leaves], current_source())
    bind_failure(bits.bitwise_not(pred), leaves, table, debug)


def check_indices(indices: Any, size: int, axis: int) -> None:
    """Check index values of a program, negative ones counted from the end, against the size of an axis.

    Parameters
    ----------
    indices : integer[...]
    size, axis : int
    """
    aval = aval_of(indices)
    if not aval.size:
        return
    flat = shape.reshape(indices, (aval.size,))
    wide = cast.convert_element_type(flat, np.int64 if aval.dtype.itemsize == 8 else np.int32)
    bound = shape.full_like_aval(aval_of(wide), size)
    outside = bits.bitwise_or(comparison.ge(wide, bound), comparison.lt(wide, elementwise.neg(bound)))
    worst = slicing.dynamic_index_in_dim(flat, reduction.argmax(outside, 0, INT32), 0, keepdims=False)
    text = f"index {{}} is out of bounds for axis {axis} with size {size}"
    _, args_tree = tree.flatten(((worst,), {}))
    table = single(errors.IndexCheckError, text, args_tree, [aval_of(worst)], current_source())
    bind_failure(reduction.reduce_or(outside, (0,)), [worst], table)


def bind_failure(failed: Any, values: Sequence[Any], table: Table, debug: bool = False) -> None:
    """Bind the one check of a table; `failed` is a scalar bool."""
    check_p.bind(cast.convert_element_type(failed, INT32), *values, table=table, lanes=0, debug=debug)


def _scalar_bool(name: str, pred: Any) -> Any:
    try:
        aval = aval_of(pred)
    except TypeError:
        raise TypeError(f"{name} takes a scalar pred, got {pred!r}.") from None
    if aval.shape != () or not (dtypes.issubdtype(aval.dtype, np.bool_) or dtypes.issubdtype(aval.dtype, np.number)):
        raise TypeError(f"{name} takes a scalar pred, got {aval.str_short()}; use pnp.all(...) or pnp.any(...).")
    return aval


hooks.check_indices = check_indices
