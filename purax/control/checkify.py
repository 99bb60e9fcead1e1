# SPDX-License-Identifier: Apache-2.0
"""`checkify`: functions that return what their checks found instead of raising it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import config, errors, tree
from purax.control.check import CODE, Table, bind_check, check_p, exception_of, reporting
from purax.control.discharge import discharge
from purax.control.instrument import instrument
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr
from purax.core.ir import open_constants
from purax.core.stage import stage
from purax.core.trace import aval_of
from purax.primitives.base import zeros_of
from purax.transforms.flat import like, name_of

__all__ = [
    "Error", "ErrorCategory", "all_checks", "automatic_checks", "check", "check_error", "checkify", "debug_check", "div_checks",
    "float_checks", "index_checks", "init_error", "nan_checks", "user_checks",
]  # fmt: skip

ErrorCategory = type[errors.CheckError]

user_checks: frozenset[ErrorCategory] = frozenset({errors.FailedCheckError})
nan_checks: frozenset[ErrorCategory] = frozenset({errors.NanCheckError})
div_checks: frozenset[ErrorCategory] = frozenset({errors.DivisionCheckError})
index_checks: frozenset[ErrorCategory] = frozenset({errors.IndexCheckError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


@tree.register_pytree_node_class
class Error:
    """What the checks of a function found: a pytree that goes through transformations as any value does.

    Attributes
    ----------
    code : int32[...]
        Zero where nothing failed; mapped by `vmap`, one number per lane.
    """

    __slots__ = ("_table", "_values", "code")

    def __init__(self, code: Any, values: Any, table: Table) -> None:
        self.code, self._values, self._table = code, tuple(values), table

    def tree_flatten(self) -> tuple[tuple[Any, ...], Table]:
        """Children and static data."""
        return (self.code, *self._values), self._table

    @classmethod
    def tree_unflatten(cls, table: Table, children: Any) -> Error:
        """Inverse of `tree_flatten`."""
        code, *values = children
        return cls(code, values, table)

    def _found(self) -> list[tuple[tuple[int, ...], errors.CheckError]]:
        code = np.asarray(self.code)
        values = [np.asarray(v) for v in self._values] if code.any() else []
        lanes = [tuple(map(int, lane)) for lane in np.argwhere(code)] if code.ndim else [()] * bool(code)
        return [(lane, exception_of(self._table, int(code[lane]), [v[lane] for v in values])) for lane in lanes]

    def get(self) -> str | None:
        """The message of the first check that failed, or None; mapped, one line per lane that failed."""
        lines = [
            f"at mapped index {', '.join(map(str, lane))}: {error}" if lane else str(error)
            for lane, error in self._found()
        ]
        return "\n".join(lines) or None

    def get_exception(self) -> errors.CheckError | None:
        """The exception of the first check that failed, or None."""
        found = self._found()
        if not found:
            return None
        lane, error = found[0]
        if lane:
            error.lane = (*lane, *error.lane)
            error.args = (self.get(),)
        return error

    def throw(self) -> None:
        """Raise the exception of the first check that failed; within a transformation, bind a check of the error."""
        check_error(self)

    def __str__(self) -> str:
        return f"Error({self.get()})"

    __repr__ = __str__


init_error = Error(zeros_of(CODE), (), Table((), ()))


def checkify(fun: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks) -> Callable[..., Any]:
    """Function that returns `(Error, output)`: checks of the chosen kinds end in the Error, others are left out.

    Parameters
    ----------
    fun : callable
    errors : set of check kinds
        `user_checks`, `nan_checks`, `div_checks`, `index_checks`, and unions of them such as `float_checks`, `automatic_checks`
        and `all_checks`. Automatic kinds look at every operation of `fun`.

    Returns
    -------
    callable
        May be transformed and compiled; the order with `vmap`, `jit`, `grad` is free.

    Raises
    ------
    TypeError
        `errors` is no set of kinds.
    """
    kinds = frozenset(errors)
    if not kinds <= all_checks:
        raise TypeError(f"checkify: errors is a set of kinds such as checkify.all_checks, got {errors!r}")

    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        out_tree: Any = None
        # What is no array, or concrete, stays what it is inside, but for floats: Python's own operations on them raise.
        args, kwargs = tree.map(lambda x: hooks.as_array(x) if type(x) in (float, complex) else x, (args, kwargs))

        def flat() -> list[Any]:
            nonlocal out_tree
            outs, out_tree = tree.flatten(fun(*args, **kwargs))
            return outs

        token = reporting.set(True)
        try:
            jaxpr, consts = open_constants(stage(flat, (), name_of(fun), kind="checkify"))
        finally:
            reporting.reset(token)
        program, table = discharge(instrument(jaxpr, kinds))
        results = eval_jaxpr(program, (), *consts)
        count = len(jaxpr.outvars)
        return Error(results[count], results[count + 1 :], table), out_tree.unflatten(results[:count])

    return like(checked, fun, "checkify")


def check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`purax.check` under the name and with the arguments of `jax.experimental.checkify.check`.

    Parameters
    ----------
    pred : bool[...]
    msg : str
        With fields.
    fmt_args, fmt_kwargs : arrays
        What fills them.
    """
    if config.current().checks:
        bind_check("check", pred, msg, fmt_args, fmt_kwargs, debug=False)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A check that does nothing unless the program is `checkify`ed; parameters as of `check`.

    Parameters
    ----------
    pred : bool[...]
    msg : str
        With fields.
    fmt_args, fmt_kwargs : arrays
        What fills them.
    """
    if config.current().checks:
        bind_check("debug_check", pred, msg, fmt_args, fmt_kwargs, debug=True)


def check_error(error: Error) -> None:
    """Raise the error if it tells of a failed check; in a program, check it as any other condition.

    Parameters
    ----------
    error : Error
        Mapped errors are checked in all lanes.

    Raises
    ------
    TypeError
        It is no Error.
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error, as checkify returns it, got {error!r}")
    children, table = error.tree_flatten()
    if table.sites:
        check_p.bind(*children, table=table, lanes=aval_of(error.code).ndim, debug=False)
