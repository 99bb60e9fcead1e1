# SPDX-License-Identifier: Apache-2.0
"""How a class body becomes a module: the dataclass transformation, wrapped methods, the marks of methods, adoption of attributes."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeVar

from purax.linen import errors
from purax.linen.frozen_dict import FrozenDict

__all__ = [
    "PLAIN_TYPES",
    "ModuleState",
    "Setup",
    "Unspecified",
    "compact",
    "compact_name_scope",
    "map_attribute",
    "name_of",
    "nowrap",
    "unspecified_parent",
    "wrap_method",
]

F = TypeVar("F", bound=Callable[..., Any])

# Methods that are run by the language or by the dataclass machinery, without variables.
_UNWRAPPED = frozenset(
    "__eq__ __repr__ __init__ __hash__ __post_init__ __getattr__ __setattr__ __delattr__ __getattribute__ "
    "__new__ __init_subclass__ __class_getitem__ __dir__ __str__ __reduce__ __reduce_ex__ __copy__ __deepcopy__".split()
)


class Unspecified(enum.Enum):
    """The default of `parent`: whichever module is running when this one is made."""

    PARENT = enum.auto()


unspecified_parent = Unspecified.PARENT


class Setup(enum.IntEnum):
    """Whether `setup` has run: not yet; outside a lifted call and now again inside; yes."""

    NEW = 0
    TRANSFORMED = 1
    DONE = 2


@dataclasses.dataclass
class ModuleState:
    """What a module instance remembers while it runs."""

    in_compact_method: bool = False
    in_setup: bool = False
    setup_called: Setup = Setup.NEW
    is_initialized: bool = False
    autoname_cursor: dict[str, int] = dataclasses.field(default_factory=dict)
    children: dict[str, Any] = dataclasses.field(default_factory=dict)

    def reset(self) -> None:
        """Forget what belongs to one method call."""
        self.in_compact_method = False
        self.in_setup = False
        self.autoname_cursor = {}

    def export(self) -> ModuleState:
        """Return the state of the copy that runs inside a lifted call."""
        return ModuleState(
            self.in_compact_method,
            self.in_setup,
            Setup.TRANSFORMED if self.setup_called else Setup.NEW,
            self.is_initialized,
            dict(self.autoname_cursor),
        )

    def reimport(self, other: ModuleState) -> None:
        """Take over the state of the copy that ran inside a lifted call."""
        self.in_compact_method = other.in_compact_method
        self.in_setup = other.in_setup
        self.is_initialized = other.is_initialized
        self.autoname_cursor = dict(other.autoname_cursor)


def compact(fun: F) -> F:
    """Mark a method in which submodules and parameters are declared where they are used.

    Submodules without a name are called after their class, `Dense_0`, `Dense_1`.

    Examples
    --------
    >>> from purax import linen
    >>> class MLP(linen.Module):
    ...     features: int
    ...
    ...     @linen.compact
    ...     def __call__(self, x):
    ...         return linen.Dense(self.features)(linen.relu(linen.Dense(8)(x)))
    """
    fun.compact = True  # type: ignore[attr-defined]
    return fun


def nowrap(fun: F) -> F:
    """Mark a method that neither needs variables nor runs `setup`, so that it works on unbound modules."""
    fun.nowrap = True  # type: ignore[attr-defined]
    return fun


def compact_name_scope(fun: F) -> F:
    """Mark a compact method whose submodules live under the method's name; a class may have several.

    Raises
    ------
    CallCompactUnboundModuleError
        (By the method.) The module is not bound.
    """

    @functools.wraps(fun)
    def in_own_scope(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.scope is None:
            raise errors.CallCompactUnboundModuleError
        scope, state = self.scope, self._state
        object.__setattr__(self, "scope", scope.push(fun.__name__, reuse=True))
        object.__setattr__(self, "_state", ModuleState(True, False, Setup.DONE, True))
        try:
            return fun(self, *args, **kwargs)
        finally:
            object.__setattr__(self, "scope", scope)
            object.__setattr__(self, "_state", state)

    return in_own_scope  # type: ignore[return-value]


def name_of(fun: Any) -> str:
    """Return the name of a function, or of the function in a partial."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return getattr(fun, "__name__", "unnamed")


def wrap_method(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method run through the module's bookkeeping; a method that is wrapped already stays."""
    if hasattr(fun, "method_handler_wrapped"):
        return fun

    @functools.wraps(fun)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(type(self), "_call_method"):
            return self._call_method(fun, args, kwargs)
        return fun(self, *args, **kwargs)

    method.method_handler_wrapped = True  # type: ignore[attr-defined]
    return method


def transform_class(cls: type, kw_only: bool) -> None:
    """Make a subclass of Module a dataclass and wrap the methods of its body."""
    annotations = inspect.get_annotations(cls)
    if "parent" in annotations or str(annotations.get("name", "str")) not in _NAME_TYPES:
        raise errors.ReservedModuleAttributeError(annotations)
    for field_name in annotations:
        field = cls.__dict__.get(field_name)
        if isinstance(field, dataclasses.Field) and not field.init:
            # set in setup(), so it does not exist yet when modules are compared or hashed
            field.compare = field.hash = field.repr = False
    dataclasses.dataclass(cls, unsafe_hash="__hash__" not in cls.__dict__, repr=False, kw_only=kw_only)
    cls.__hash__ = _hash_of_unbound(cls.__hash__)  # type: ignore[method-assign,assignment]
    fields = {field.name: field.init for field in dataclasses.fields(cls)}
    settings = tuple(name for name, init in fields.items() if init and name not in ("parent", "name"))
    cls._settings = settings  # type: ignore[attr-defined]
    ordered = cls.__dataclass_fields__  # type: ignore[attr-defined]
    for name in ("parent", "name"):  # last, as they are in the signature
        ordered[name] = ordered.pop(name)
    methods = {
        name: value
        for name, value in vars(cls).items()
        if inspect.isfunction(value) and name not in fields and name not in _UNWRAPPED and not hasattr(value, "nowrap")
    }
    for name, value in methods.items():
        setattr(cls, name, wrap_method(value))


_NAME_TYPES = frozenset(("str", "<class 'str'>", "str | None", "Optional[str]", "typing.Optional[str]"))


def _hash_of_unbound(hash_function: Any) -> Callable[[Any], int]:
    @functools.wraps(hash_function)
    def hashed(self: Any) -> int:
        if self.scope is not None:
            raise TypeError("A module that holds variables has no hash; use the unbound module.")
        try:
            return hash_function(self)
        except TypeError as error:
            raise TypeError(f"The module has no hash: one of its fields is not hashable. Module: {self}") from error

    return hashed


# Types of settings that can hold no modules.
PLAIN_TYPES = frozenset((type(None), bool, int, float, complex, str, bytes, type, FunctionType, BuiltinFunctionType))


def map_attribute(function: Callable[[str, Any], Any], value: Any, suffix: str = "") -> Any:
    """Apply `function(suffix, leaf)` to the leaves of nested lists, tuples, dictionaries and dataclasses.

    The containers come back immutable: lists as tuples, dictionaries as FrozenDict. The suffix tells the place,
    such as "_0" in a list or "_encoder" in a dictionary.

    Parameters
    ----------
    function : callable
    value : any
    suffix : str

    Returns
    -------
    as `value`
    """
    if isinstance(value, Mapping):
        keys = sorted(value, key=str)  # a module that is held twice is named after the first key in this order
        mapped = {key: map_attribute(function, value[key], f"{suffix}_{key}") for key in keys}
        return FrozenDict({key: mapped[key] for key in value})
    if isinstance(value, (list, tuple)) and type(value).__name__ != "PartitionSpec":
        parts = [map_attribute(function, held, f"{suffix}_{index}") for index, held in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "_call_method"):
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        new = {name: map_attribute(function, part, f"{suffix}_{name}") for name, part in held.items()}
        changed = {name: part for name, part in new.items() if hasattr(part, "_call_method")}
        return dataclasses.replace(value, **changed) if changed else value
    return function(suffix, value)
