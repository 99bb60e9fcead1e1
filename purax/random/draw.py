# SPDX-License-Identifier: Apache-2.0
"""What all samplers share: their arguments, checked; their formulas, compiled once per shape and dtype.

Parameters
----------
name : str
    Of the function that the user called, for messages.
dtype : dtype, optional
parameters : arrays or scalars
    Of a distribution.
shape : sequence of int, optional
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import dtypes, errors
from purax.control.jit import JitFunction, jit
from purax.control.sharded import with_sharding_constraint
from purax.core.trace import Tracer, aval_of
from purax.primitives import cast
from purax.primitives import shape as shapes
from purax.primitives.resharding import destination, is_explicit, reshard_to
from purax.runtime.transfer import device_put

__all__ = ["Sampler", "check_castable", "common_shape", "float_dtype", "integer_dtype", "placed", "sampler", "to"]

_LIMIT = 4096


class Sampler:
    """A formula `core(key, *parameters, **static)` and its compiled forms, one per static arguments.

    The call is one compiled program in eager code and one inner program under `jit`; other formulas use `core` itself.
    """

    def __init__(self, core: Callable[..., Any]) -> None:
        self.core = core
        self.name = core.__name__.strip("_")
        self.programs: dict[Any, JitFunction] = {}
        self.__doc__ = core.__doc__

    def __call__(self, *operands: Any, **static: Any) -> Any:
        """Draw; keyword arguments are static."""
        key = tuple(static.items())
        program = self.programs.get(key)
        if program is None:
            if len(self.programs) >= _LIMIT:
                self.programs.clear()
            program = self.programs.setdefault(key, self._program(static))
        return program(*operands)

    def _program(self, static: dict[str, Any]) -> JitFunction:
        core = self.core

        def draw(*operands: Any) -> Any:
            return core(*operands, **static)

        draw.__name__ = draw.__qualname__ = self.name
        return jit(draw)


def sampler(core: Callable[..., Any]) -> Sampler:
    """Decorator that makes a Sampler."""
    return Sampler(core)


# --- arguments ----------------------------------------------------------------------------------------------------------------


def float_dtype(name: str, dtype: Any, complex_too: bool = False) -> Any:
    """The dtype of the draws of the function `name`: float by default.

    Parameters
    ----------
    complex_too : bool
        Complex dtypes will do.

    Returns
    -------
    dtype

    Raises
    ------
    ValueError
        It is not floating.
    """
    if dtype is None or dtype is float:
        return dtypes.default_float()
    found = dtypes.named(dtype)
    if not (dtypes.is_inexact(found) if complex_too else dtypes.is_float(found)):
        raise ValueError(
            f"dtype argument to `{name}` must be a float{' or complex' if complex_too else ''} dtype, got {found}"
        )
    return found


def integer_dtype(name: str, dtype: Any) -> Any:
    """The dtype of the draws of the function `name`: int by default.

    Raises
    ------
    TypeError
        It is no integer dtype.
    """
    if dtype is None or dtype is int:
        return dtypes.default_int()
    found = dtypes.named(dtype)
    if not dtypes.is_integer(found):
        raise TypeError(f"{name} only accepts integer dtypes, got {found}")
    return found


def common_shape(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """`shape`, or if it is None the shape that the parameters broadcast to.

    Raises
    ------
    ValueError
        The parameters do not broadcast to `shape`.
    """
    found = [aval_of(p).shape for p in parameters]
    if shape is None:
        return shapes.broadcast_shapes(*found)
    wanted = shapes.canonical_shape(shape)
    result = shapes.broadcast_shapes(wanted, *found)
    if result != wanted:
        raise ValueError(
            f"{name}: the parameters, of shapes {found}, do not broadcast to the shape {wanted} that was asked for (but to {result})"
        )
    return wanted


def check_castable(name: str, dtype: Any, *parameters: Any) -> None:
    """Check that promotion alone would turn the parameters into `dtype`.

    Raises
    ------
    TypePromotionError
        It would not.
    """
    for p in parameters:
        if not dtypes.safe_to_cast(p, dtype):
            raise errors.TypePromotionError(
                f"{name}: a parameter of dtype {aval_of(p).dtype} would lose digits as {dtype}, the dtype of the draws"
            )


def to(x: Any, dtype: Any, shape: tuple[int, ...] | None = None) -> Any:
    """A parameter as an array of `dtype`, repeated to `shape`."""
    x = cast.convert_element_type(x, dtype)
    return x if shape is None else shapes.broadcast_to(x, shape)


def placed(x: Any, sharding: Any) -> Any:
    """A draw, with the layout `sharding` if one was asked for: dtype and shape stay."""
    if sharding is None:
        return x
    if is_explicit(sharding):
        return reshard_to(x, *destination(sharding, aval_of(x).ndim))
    return with_sharding_constraint(x, sharding) if isinstance(x, Tracer) else device_put(x, sharding)
