# SPDX-License-Identifier: Apache-2.0
"""Module: the base class of all layers and models.

A module is a frozen dataclass of settings. Its variables live outside, in dictionaries; `init` makes them, `apply` runs a
method with them. While a method runs the module is a clone bound to a `Scope`, which says where its variables are.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, dataclass_transform

from purax import numpy as pnp
from purax import tree
from purax.control.staging import named_scope
from purax.linen import declare, errors, functional
from purax.linen import scope as core
from purax.linen.context import intercepted, named_calls, running
from purax.linen.declare import PLAIN_TYPES, ModuleState, Setup, map_attribute, name_of, unspecified_parent
from purax.linen.filters import CollectionFilter, DenyList
from purax.linen.scope import Scope, Variable
from purax.linen.summary import module_paths, record_call, tabulate_module

__all__ = ["Module", "merge_param", "share_scope"]

M = TypeVar("M", bound="Module")
T = TypeVar("T")
_no_intermediates = DenyList("intermediates")
_ids = itertools.count()


class _Parent:
    """The attribute `parent`, held weakly so that modules and tracers form no reference cycles."""

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return None
        parent = module.__dict__.get("_parent")
        return parent() if isinstance(parent, weakref.ref) else parent

    def __set__(self, module: Any, parent: Any) -> None:
        module.__dict__["_parent"] = weakref.ref(parent) if isinstance(parent, Module) else parent


@dataclass_transform(kw_only_default=False, field_specifiers=(dataclasses.field,))
@dataclasses.dataclass(repr=False, eq=False)
class Module:
    """Base class of layers and models. Subclasses are dataclasses; write fields, `setup`, and methods.

    Parameters
    ----------
    parent : Module, Scope or None, keyword only
        Module that owns this one; by default the module whose method is running.
    name : str, keyword only
        Name among the submodules of the parent; by default made from the class name or the attribute.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> class MLP(linen.Module):
    ...     def setup(self):
    ...         self.hidden = linen.Dense(4)
    ...         self.out = linen.Dense(2)
    ...
    ...     def __call__(self, x):
    ...         return self.out(linen.relu(self.hidden(x)))
    >>> variables = MLP().init(random.key(0), pnp.ones((1, 3)))
    >>> MLP().apply(variables, pnp.ones((5, 3))).shape
    (5, 2)
    """

    parent: Any = dataclasses.field(default=unspecified_parent, kw_only=True, compare=False)
    name: str | None = dataclasses.field(default=None, kw_only=True)

    def __init_subclass__(cls, kw_only: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declare.transform_class(cls, kw_only)

    # -- construction ------------------------------------------------------------------------------------------------------
    def __post_init__(self) -> None:
        """Attach the module to its parent; modules without one wait until they are bound or assigned."""
        self.__dict__["_id"] = next(_ids)
        self.__dict__["_state"] = ModuleState()
        if self.parent is unspecified_parent:
            self.parent = running.modules[-1]
        parent = self.parent
        if parent is None:
            return
        if isinstance(parent, Module):
            if parent._state.in_setup and self.name is None:
                return  # named and attached by `self.attribute = module`
            self._attach(parent)
        elif isinstance(parent, Scope):
            self.__dict__["scope"] = parent
        else:
            raise ValueError(f"parent must be a Module, a Scope or None, got {parent!r}.")
        if self.scope is not None:
            self._adopt_fields()
        self._state.is_initialized = True

    def _attach(self, parent: Module) -> None:
        state = parent._state
        if not parent._may_declare:
            raise errors.AssignSubModuleError(type(self).__name__)
        if self.name is None:
            prefix = type(self).__name__
            number = state.autoname_cursor.get(prefix, 0)
            self.name = f"{prefix}_{number}"
            state.autoname_cursor[prefix] = number + 1
        reuse = state.in_setup and state.setup_called == Setup.TRANSFORMED
        if not reuse and parent.scope.name_reserved(self.name):
            raise errors.NameInUseError("submodule", self.name, type(parent).__name__)
        state.children[self.name] = self
        self.__dict__["scope"] = parent.scope.push(self.name, reuse=reuse)

    def _adopt_fields(self) -> None:
        held = self.__dict__
        for name in self._settings:
            if type(held.get(name)) not in PLAIN_TYPES:
                self._adopt(name, getattr(self, name))

    def _adopt(self, name: str, value: Any) -> None:
        """Set an attribute; modules in it that have no parent yet become submodules, named after the attribute."""
        newly: list[Module] = []
        cache = self.scope.store.adopted

        def adopt(suffix: str, leaf: Any) -> Any:
            if not isinstance(leaf, Module):
                return leaf
            given_name = None
            if leaf.parent is None:  # made outside: one clone per call of apply, shared by all who hold it
                if getattr(type(self), "preserve_adopted_names", False):
                    given_name = leaf.name
                key = leaf._id
                leaf = cache.get(key) or cache.setdefault(key, leaf.clone(name=None))
            if leaf.name is None:
                leaf.__dict__["name"] = given_name or f"{name}{suffix}"
                object.__setattr__(leaf, "parent", self)
                newly.append(leaf)
            return leaf

        self.__dict__[name] = map_attribute(adopt, value)
        for module in newly:
            module.__post_init__()

    def setup(self) -> None:
        """Declare submodules and variables as attributes; called once, before the first method, when variables are known."""

    def _try_setup(self) -> None:
        """Run `setup` if the module is bound and it has not run."""
        state = self._state
        if self.scope is None or state.in_setup or state.setup_called == Setup.DONE:
            return
        state.in_setup = True
        try:
            self.setup()
        finally:
            state.in_setup = False
            state.setup_called = Setup.DONE

    @property
    def _may_declare(self) -> bool:
        state = self._state
        return not state.is_initialized or state.in_setup or state.in_compact_method

    # -- attributes ----------------------------------------------------------------------------------------------------------
    def __setattr__(self, name: str, value: Any) -> None:
        state = self._state
        if state is None or not (state.in_setup or state.is_initialized) or name.startswith("__"):
            object.__setattr__(self, name, value)
        elif not state.in_setup:
            raise errors.SetAttributeFrozenModuleError(type(self).__name__, name, value)
        elif name in self.__dataclass_fields__ and self.__dataclass_fields__[name].init:
            raise errors.SetAttributeInModuleSetupError
        else:
            self._adopt(name, value)

    def __getattr__(self, name: str) -> Any:
        """Attributes that `setup` defines: run it first."""
        if name.startswith("__"):
            raise AttributeError(name)
        descriptor = inspect.getattr_static(type(self), name, None)
        if hasattr(descriptor, "__get__"):  # a property whose getter failed; run it again to show where
            try:
                return descriptor.__get__(self, type(self))
            except AttributeError as error:
                raise errors.DescriptorAttributeError(name) from error
        self._try_setup()
        if name in self.__dict__:
            return self.__dict__[name]
        hint = "" if self.scope is not None else " Attributes made in setup() exist only within init, apply and bind."
        raise AttributeError(f'"{type(self).__name__}" object has no attribute "{name}".{hint}')

    def __dir__(self) -> list[str]:
        self._try_setup()
        return list(object.__dir__(self))

    def __repr__(self) -> str:
        return _describe(self)

    # -- calls ---------------------------------------------------------------------------------------------------------------
    def _call_method(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a method: setup before it, this module on the stack during it, names forgotten after it."""
        state = self._state
        if state is None:
            raise errors.IncorrectPostInitOverrideError
        name = name_of(fun)
        is_compact, is_setup = hasattr(fun, "compact"), name == "setup"
        nested = False
        if is_setup:
            if self.scope is None:
                raise errors.CallSetupUnboundModuleError
            nested, state.in_setup = state.in_setup, True
        else:
            self._try_setup()
        if is_compact:
            if self.scope is None:
                raise errors.CallCompactUnboundModuleError
            nested, state.in_compact_method = state.in_compact_method, True
        running.modules.append(self)
        try:
            run = intercepted(fun, name) if running.interceptors else fun
            recorded = running.calls and not is_setup
            slot = record_call(None) if recorded else 0
            if named_calls.enabled:
                run = named_scope(_profile_name(self, name))(run)
            result = run(self, *args, **kwargs)
            if running.captures and running.captures[-1] and running.captures[-1](self, name):
                self.sow("intermediates", name, result)
            if recorded:
                record_call(slot, self, fun, args, kwargs, result)
            return result
        finally:
            running.modules.pop()
            if is_compact:
                self.__dict__["scope"] = self.scope.rewound()
            if (is_compact or is_setup) and not nested:
                state.reset()

    # -- copies ----------------------------------------------------------------------------------------------------------------
    def clone(
        self: M, *, parent: Any = None, _deep_clone: Any = False, _reset_names: bool = False, **updates: Any
    ) -> M:
        """Return a copy of the settings with some replaced.

        Parameters
        ----------
        parent : Module, Scope or None
            Parent of the copy.
        **updates
            Fields to replace.
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        fields.update(parent=parent, **updates)
        if _deep_clone is not False:
            cache = {} if _deep_clone is True else _deep_clone
            names = {"name": None} if _reset_names else {}

            def copied(suffix: str, leaf: Any) -> Any:
                if not isinstance(leaf, Module):
                    return leaf
                if leaf._id not in cache:
                    cache[leaf._id] = leaf.clone(_deep_clone=cache, _reset_names=_reset_names, **names)
                return cache[leaf._id]

            fields = {name: held if name == "parent" else map_attribute(copied, held) for name, held in fields.items()}
        return type(self)(**fields)

    def copy(self: M, *, parent: Any = unspecified_parent, name: str | None = None, **updates: Any) -> M:
        """Return a copy with another name; its parent is the module whose method is running."""
        return self.clone(parent=parent, name=name, _deep_clone=True, **updates)

    # -- running with variables --------------------------------------------------------------------------------------------------
    def apply(
        self,
        variables: Mapping[str, Any],
        *args: Any,
        rngs: Any = None,
        method: Any = None,
        mutable: CollectionFilter = False,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> Any:
        """Run a method of the module with given variables.

        Parameters
        ----------
        variables : dict
            Collections, as `init` returns them.
        *args, **kwargs
            Arguments of the method.
        rngs : key or dict of keys, optional
            Random streams, such as `{"dropout": key}`; a single key is the stream "params".
        method : str or callable, optional
            Method to run, or a function that takes the module first; `__call__` by default.
        mutable : filter
            Collections that the method may change.
        capture_intermediates : bool or callable
            True to store the output of each `__call__` in "intermediates", or `f(module, method_name) -> bool`.

        Returns
        -------
        result, or (result, changed variables) if `mutable` is not False
        """
        run = functional.apply(functional.method_of(self, method), self, mutable, capture_intermediates)
        return run(variables, *args, rngs=rngs, **kwargs)

    def init_with_output(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: CollectionFilter = _no_intermediates,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Make the variables, as `init`, and return `(output, variables)`."""
        run = functional.init_with_output(functional.method_of(self, method), self, mutable, capture_intermediates)
        return run(rngs, *args, **kwargs)

    def init(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: CollectionFilter = _no_intermediates,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Make the variables by running a method on example inputs, of which only shapes and dtypes matter as a rule.

        Parameters
        ----------
        rngs : key or dict of keys
            Random streams; a single key is the stream "params".
        *args, **kwargs
            Arguments of the method.
        method, mutable, capture_intermediates
            As in `apply`.

        Returns
        -------
        dict
            Collections, such as `{"params": {...}, "batch_stats": {...}}`.
        """
        functional.check_instance(self)
        return self.init_with_output(
            rngs, *args, method=method, mutable=mutable, capture_intermediates=capture_intermediates, **kwargs
        )[1]

    def lazy_init(
        self, rngs: Any, *args: Any, method: Any = None, mutable: CollectionFilter = _no_intermediates, **kwargs: Any
    ) -> dict[str, Any]:
        """Make the variables as `init` does, from inputs that may be ShapeDtypeStruct: the method itself is not computed."""
        return functional.lazy_init(functional.method_of(self, method), self, mutable)(rngs, *args, **kwargs)

    def bind(
        self: M, variables: Mapping[str, Any], *args: Any, rngs: Any = None, mutable: CollectionFilter = False
    ) -> M:
        """Return a copy that holds variables, for interactive work: its methods and submodules can be called directly."""
        del args
        functional.check_instance(self)
        return self.clone(parent=core.bind(variables, rngs, mutable), _deep_clone=True)

    def unbind(self: M) -> tuple[M, dict[str, Any]]:
        """Return an unbound copy of a bound module, or submodule, and its variables."""
        functional.check_instance(self)
        if self.scope is None:
            raise errors.CallUnbindOnUnboundModuleError
        return self.clone(_deep_clone=True, _reset_names=True, name=None), self.variables

    # -- variables ---------------------------------------------------------------------------------------------------------------
    def _bound(self, what: str) -> Scope:
        if self.scope is None:
            raise ValueError(f"{what} is used on an unbound module; it works within init, apply and bind only.")
        return self.scope

    @property
    def variables(self) -> dict[str, Any]:
        """The collections of this module and its submodules."""
        return self._bound("variables").variables()

    @property
    def path(self) -> tuple[str, ...]:
        """Names from the root module to this one."""
        return self._bound("path").path

    def param(self, name: str, init_fn: Any, *init_args: Any, unbox: bool = True, **init_kwargs: Any) -> Any:
        """Declare a parameter: read it from "params", or make it with `init_fn(key, *init_args, **init_kwargs)` in `init`.

        Raises
        ------
        ScopeParamShapeError
            If the given value has another shape than `init_fn` makes.
        """
        self._check_declaration("param", name, "params")
        value = self._bound("param").param(name, init_fn, *init_args, unbox=unbox, **init_kwargs)
        self._state.children[name] = "params"
        return value

    def variable(
        self, col: str, name: str, init_fn: Any = None, *init_args: Any, unbox: bool = True, **init_kwargs: Any
    ) -> Variable[Any]:
        """Declare a variable of a collection, made with `init_fn(*init_args, **init_kwargs)` if it is missing.

        Returns
        -------
        Variable
            Read and written through its attribute `value`.
        """
        self._check_declaration("variable", name, col)
        variable = self._bound("variable").variable(col, name, init_fn, *init_args, unbox=unbox, **init_kwargs)
        self._state.children[name] = col
        return variable

    def _check_declaration(self, kind: str, name: str, collection: str) -> None:
        if not self._may_declare:
            raise ValueError(f'The {kind} "{name}" is declared in a method that is neither setup nor compact.')
        if self._bound(kind).name_reserved(name, collection):
            raise errors.NameInUseError(kind, name, type(self).__name__)

    def has_variable(self, col: str, name: str) -> bool:
        """Whether a variable exists here."""
        return self._bound("has_variable").has_variable(col, name)

    def get_variable(self, col: str, name: str, default: Any = None) -> Any:
        """Return the value of a variable of this module, or `default`."""
        return self._bound("get_variable").get_variable(col, name, default)

    def put_variable(self, col: str, name: str, value: Any) -> None:
        """Set the value of a variable of this module."""
        self._bound("put_variable").put_variable(col, name, value)

    def is_mutable_collection(self, col: str) -> bool:
        """Whether variables of a collection may be written in this call."""
        return self._bound("is_mutable_collection").is_mutable_collection(col)

    def is_initializing(self) -> bool:
        """Whether this call is `init`."""
        return self._bound("is_initializing").get_flag("initializing", False)

    def has_rng(self, name: str) -> bool:
        """Whether a random stream was given."""
        return self._bound("has_rng").has_rng(name)

    def make_rng(self, name: str = "params") -> Any:
        """Return a new random key that depends on the stream, this module's path and how many were drawn here before."""
        return self._bound("make_rng").make_rng(name)

    def sow(
        self,
        col: str,
        name: str,
        value: Any,
        reduce_fn: Callable[[Any, Any], Any] = lambda values, value: (*values, value),
        init_fn: Callable[[], Any] = lambda: (),
    ) -> bool:
        """Store an intermediate value if its collection is mutable; by default all values in a tuple.

        Returns
        -------
        bool
            Whether it was stored.
        """
        scope = self._bound("sow")
        if not scope.is_mutable_collection(col):
            return False
        if scope.has_variable(col, name):
            held = scope.get_variable(col, name)
        else:
            scope.reserve(name, col)
            self._state.children[name] = col
            held = init_fn()
        scope.put_variable(col, name, reduce_fn(held, value))
        return True

    def perturb(self, name: str, value: Any, collection: str = "perturbations") -> Any:
        """Add a variable of zeros to a value, so that the variable's gradient is the gradient of the value.

        Without the collection among the variables the value comes back unchanged.
        """
        scope = self._bound("perturb")
        if scope.is_mutable_collection(collection) and not scope.has_variable(collection, name):
            scope.reserve(name, collection)
            self._state.children[name] = collection
            scope.put_variable(collection, name, tree.map(pnp.zeros_like, value))
        if collection not in scope.store.variables:
            return value
        if not scope.has_variable(collection, name):
            raise errors.ScopeVariableNotFoundError(name, collection, scope.path_text)
        return tree.map(pnp.add, value, scope.get_variable(collection, name))

    tabulate = tabulate_module
    module_paths = module_paths


Module.parent = _Parent()  # after the dataclass transformation, which would take it for a default
Module.scope = None  # type: ignore[attr-defined]
Module._state = None  # type: ignore[attr-defined]
Module._settings = ()  # type: ignore[attr-defined]
for _name in ("tabulate", "module_paths"):
    declare.nowrap(getattr(Module, _name))


def _profile_name(module: Module, method: str) -> str:
    name = module.name or type(module).__name__
    return name if method == "__call__" else f"{name}.{method}"


def _describe(module: Module, indent: int = 4) -> str:
    """Text of a module: its fields and, when bound, its submodules."""
    lines = []
    fields = [f for f in dataclasses.fields(module) if f.repr and f.name not in ("parent", "name")]
    if fields:
        lines.append("# attributes")
        for field in fields:
            value = module.__dict__.get(field.name)
            plain = callable(value) and not isinstance(value, Module)
            lines.append(f"{field.name} = {getattr(value, '__name__', None) or repr(value) if plain else repr(value)}")
    children = {} if module._state is None else module._state.children
    inner = {name: child for name, child in children.items() if isinstance(child, Module)}
    if inner:
        lines.append("# children")
        lines.extend(f"{name} = {_describe(child, indent)}" for name, child in inner.items())
    if not lines:
        return f"{type(module).__name__}()"
    pad = " " * indent
    body = "\n".join(pad + line for text in lines for line in text.split("\n"))
    return f"{type(module).__name__}(\n{body}\n)"


def merge_param(name: str, a: T | None, b: T | None) -> T:
    """Return the one of two settings that is not None: a module's field and an argument of its method.

    Parameters
    ----------
    name : str
        For the message.
    a, b : any

    Returns
    -------
    as the one that is given

    Raises
    ------
    ValueError
        If both or neither are given.
    """
    if a is None and b is None:
        raise ValueError(f'"{name}" must be given, to the module or to the call.')
    if a is not None and b is not None:
        raise ValueError(f'"{name}" is given twice, to the module and to the call.')
    return a if a is not None else b  # type: ignore[return-value]


def share_scope(module: Module, other: Module, /) -> None:
    """Let two modules keep their variables at one place; call it in `setup`, on `self` and a submodule.

    Parameters
    ----------
    module : Module
        Keeps its place if `other` lies below it; otherwise its variables move to the place of `other`.
    other : Module
        The other module.

    Raises
    ------
    CallShareScopeOnUnboundModuleError
        A module is not bound.
    """
    if module.scope is None or other.scope is None:
        raise errors.CallShareScopeOnUnboundModuleError
    below = other.scope.path[: len(module.scope.path)] == module.scope.path
    kept, moved = (module, other) if below else (other, module)
    moved.__dict__["scope"] = kept.scope
    _move_children(moved)


def _move_children(module: Module) -> None:
    for name, child in module._state.children.items():
        if isinstance(child, Module) and child.scope is not None:
            child.__dict__["scope"] = module.scope.push(name, reuse=True)
            _move_children(child)
