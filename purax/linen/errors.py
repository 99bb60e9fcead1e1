# SPDX-License-Identifier: Apache-2.0
"""Errors of the layer library.

Each class says in its docstring what causes it, the smallest wrong program and the right one. All of them are `LayerError`,
so one `except` clause catches every misuse of a module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from purax.errors import LayerError, explain

__all__ = [
    "ApplyModuleInvalidMethodError",
    "ApplyScopeInvalidVariablesStructureError",
    "ApplyScopeInvalidVariablesTypeError",
    "AssignSubModuleError",
    "BroadcastVariableError",
    "CallCompactUnboundModuleError",
    "CallSetupUnboundModuleError",
    "CallShareScopeOnUnboundModuleError",
    "CallUnbindOnUnboundModuleError",
    "DescriptorAttributeError",
    "IncorrectPostInitOverrideError",
    "InvalidFilterError",
    "InvalidInstanceModuleError",
    "InvalidRngError",
    "InvalidScopeError",
    "JaxTransformError",
    "LazyInitError",
    "ModifyScopeVariableError",
    "NameInUseError",
    "PartitioningUnspecifiedError",
    "ReservedModuleAttributeError",
    "ScopeCollectionNotFound",
    "ScopeParamNotFoundError",
    "ScopeParamShapeError",
    "ScopeVariableNotFoundError",
    "SetAttributeFrozenModuleError",
    "SetAttributeInModuleSetupError",
    "TransformTargetError",
    "TransformedMethodReturnValueError",
]


class LazyInitError(LayerError):
    """Cause: `lazy_init` was given a shape for data that the initial parameters depend on.

    Wrong: `self.param("scale", lambda key: x.mean())` with `lazy_init(key, ShapeDtypeStruct(...))`.
    Right: initialize from shapes only, or pass the real array to `init`.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            explain(
                f"lazy_init: the initial value of {path!r} needs the content of an input given by shape only.",
                "An initial value may depend on keys, shapes and arrays that are given in full.",
                "Pass the array itself, or use init.",
            )
        )


class InvalidRngError(LayerError):
    """Cause: a module asked for a random stream that `init` or `apply` was not given, or a stream is not a key.

    Wrong: `Dropout(0.5, deterministic=False).apply({}, x)`.
    Right: `Dropout(0.5, deterministic=False).apply({}, x, rngs={"dropout": random.key(0)})`.
    """


class ApplyScopeInvalidVariablesTypeError(LayerError):
    """Cause: the first argument of `apply` is not a dictionary of collections.

    Wrong: `model.apply(params["kernel"], x)`. Right: `model.apply({"params": params}, x)`.
    """

    def __init__(self) -> None:
        super().__init__(
            explain(
                "apply: the variables are not a dictionary from collection names to dictionaries with string keys.",
                fix='Pass what init returned, or {"params": params}.',
            )
        )


class ApplyScopeInvalidVariablesStructureError(LayerError):
    """Cause: the variables hold the collection "params" inside "params".

    Wrong: `variables = model.init(key, x); model.apply({"params": variables}, x)`.
    Right: `model.apply(variables, x)`.
    """

    def __init__(self, variables: Any) -> None:
        inner = sorted(variables["params"])
        super().__init__(
            explain(
                f'apply: variables["params"] has a key "params" (its keys: {inner}).',
                "It looks as if the result of init was wrapped once more.",
                "Pass the result of init itself.",
            )
        )


class ScopeParamNotFoundError(LayerError):
    """Cause: `apply` needs a parameter that the given variables lack.

    Wrong: `Dense(3).apply({"params": {"kernel": kernel}}, x)` (the bias is missing).
    Right: give every parameter, or `Dense(3, use_bias=False)`. New parameters are made by `init` only.
    """

    def __init__(self, name: str, path: str) -> None:
        super().__init__(
            explain(
                f'There is no parameter "{name}" at {path!r}.',
                "apply never creates parameters; the module differs from the one that was initialized, or its names do.",
                "Call init again, or compare the names with jax-style tree paths of the variables.",
            )
        )


class ScopeCollectionNotFound(LayerError):
    """Cause: `apply` needs a whole collection that the given variables lack.

    Wrong: `model.apply({"params": params}, x)` for a model with BatchNorm.
    Right: `model.apply({"params": params, "batch_stats": batch_stats}, x)`.
    """

    def __init__(self, collection: str, name: str, path: str) -> None:
        super().__init__(
            explain(
                f'Reading "{name}" at {path!r}: the collection "{collection}" is not among the variables, or is empty there.',
                fix=f'Pass it: apply({{"{collection}": ..., ...}}), or make it with init, or name it in mutable=.',
            )
        )


class ScopeParamShapeError(LayerError):
    """Cause: a given parameter has another shape than its initializer would make.

    Wrong: `Dense(3).apply({"params": {"kernel": zeros((5, 3)), "bias": zeros(3)}}, zeros((1, 4)))`.
    Right: a kernel of shape (4, 3).
    """

    def __init__(self, name: str, path: str, given: Sequence[int], expected: Sequence[int]) -> None:
        super().__init__(
            explain(
                f'Parameter "{name}" at {path!r}: the given value has shape {tuple(given)}, '
                f"the module makes it with shape {tuple(expected)}.",
                "The module's settings or the input's shape differ from those at initialization.",
                "Use the same settings and input sizes, or initialize again.",
            )
        )


class ScopeVariableNotFoundError(LayerError):
    """Cause: `apply` needs a variable that the given collection lacks.

    Wrong: `model.apply({"params": params, "batch_stats": {}}, x)`. Right: pass the collection that `init` returned.
    """

    def __init__(self, name: str, collection: str, path: str) -> None:
        super().__init__(
            explain(
                f'There is no variable "{name}" in the collection "{collection}" at {path!r}.',
                fix=f'Make it with init, or give an initializer and mutable=["{collection}"].',
            )
        )


class InvalidFilterError(LayerError):
    """Cause: a collection filter is not a bool, a string, a container of strings or a DenyList.

    Wrong: `model.apply(variables, x, mutable=3)`. Right: `mutable=["batch_stats"]`.
    """

    def __init__(self, given: Any) -> None:
        super().__init__(
            explain(f"A collection filter got {given!r}.", fix="Use a bool, a name, a list of names or a DenyList.")
        )


class InvalidScopeError(LayerError):
    """Cause: a module is used after the `init` or `apply` that bound it has returned.

    Wrong: keeping a bound submodule in a global and calling it later. Right: `model.bind(variables)`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            explain(
                f"The scope {name!r} is no longer valid.",
                "init, apply and lifted transformations end the scopes that they made.",
                "Do not keep bound modules; use bind() for interactive work.",
            )
        )


class ModifyScopeVariableError(LayerError):
    """Cause: a variable in an immutable collection is written.

    Wrong: `model.apply(variables, x, train=True)` where BatchNorm updates "batch_stats".
    Right: `model.apply(variables, x, train=True, mutable=["batch_stats"])`.
    """

    def __init__(self, collection: str, name: str, path: str) -> None:
        super().__init__(
            explain(
                f'Writing "{name}" at {path!r}: the collection "{collection}" is immutable.',
                fix=f'Name it: apply(..., mutable=["{collection}"]); the result is then (output, updated variables).',
            )
        )


class JaxTransformError(LayerError):
    """Cause: a module is mutated inside a plain transformation that began after the module was bound.

    Wrong: `purax.vmap(lambda v: self.dense(v))(x)` inside a module. Right: `linen.vmap(...)`, the lifted form.
    """

    def __init__(self) -> None:
        super().__init__(
            explain(
                "Variables, keys or submodules of a module are used inside a transformation that began after it was bound.",
                "A plain grad, vmap, jit, scan, ... does not know the module's variables and keys.",
                "Use the lifted form (linen.vmap, linen.scan, linen.jit, ...), or transform a function of apply.",
            )
        )


class PartitioningUnspecifiedError(LayerError):
    """Cause: a lifted transformation adds an axis to a partitioned parameter without a name for the axis.

    Wrong: `linen.vmap(Block, variable_axes={"params": 0})` over parameters made by `with_partitioning`.
    Right: add `metadata_params={linen.PARTITION_NAME: "layers"}` (None for an axis that is not sharded).
    """

    def __init__(self, target: Any) -> None:
        super().__init__(
            explain(
                f"A transformation adds an axis to the partitioned value {target}.",
                "The partitioning has no name for it.",
                "Pass metadata_params={linen.PARTITION_NAME: name}.",
            )
        )


class NameInUseError(LayerError):
    """Cause: two submodules, parameters or variables of one module have the same name.

    Wrong: `Dense(3, name="x")(Dense(3, name="x")(x))`. Right: different names, or one module called twice.
    """

    def __init__(self, kind: str, name: str, module: str) -> None:
        super().__init__(
            explain(
                f'Could not create {kind} "{name}" in module {module}: the name is in use.',
                fix="Choose another name, or make the object once and use it twice.",
            )
        )


class AssignSubModuleError(LayerError):
    """Cause: a submodule is made outside `setup` and outside a `compact` method.

    Wrong: `def __call__(self, x): return Dense(3)(x)` without `@compact`.
    Right: decorate the method with `@compact`, or make the submodule in `setup`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            explain(
                f"Submodule {name} is made in a method that is neither setup nor compact.",
                fix="Decorate the method with @compact, or define the submodule in setup().",
            )
        )


class SetAttributeInModuleSetupError(LayerError):
    """Cause: `setup` assigns to a field of the module.

    Wrong: `def setup(self): self.features = 3`. Right: another attribute name, or set the field when constructing.
    """

    def __init__(self) -> None:
        super().__init__(
            explain(
                "A field of the module is assigned in setup().",
                "Fields are what the module was constructed with.",
                "Use another attribute name.",
            )
        )


class SetAttributeFrozenModuleError(LayerError):
    """Cause: an attribute is assigned outside `setup`.

    Wrong: `def __call__(self, x): self.count = 1`. Right: `self.variable(...)` for state, `setup` for submodules.
    """

    def __init__(self, module: str, name: str, value: Any) -> None:
        super().__init__(
            explain(
                f"Cannot set {name}={value!r} on a module of class {module}.",
                "Modules are frozen: they are cloned, and apply must be a pure function.",
                "Keep state in self.variable(...), make submodules in setup(), change settings with clone(name=value).",
            )
        )


class ReservedModuleAttributeError(LayerError):
    """Cause: a class declares the field `parent`, or `name` with another type.

    Wrong: `class M(Module): parent: int`. Right: any other field name.
    """

    def __init__(self, annotations: Any) -> None:
        super().__init__(
            explain(
                f"The fields parent and name are reserved; got annotations {annotations!r}.", fix="Rename the field."
            )
        )


class ApplyModuleInvalidMethodError(LayerError):
    """Cause: `method=` of `apply` or `init` is no method of the module.

    Wrong: `model.apply(variables, x, method="encoder")` where `encoder` is a submodule.
    Right: the name of a method, or a function whose first argument is the module.
    """

    def __init__(self, method: Any) -> None:
        super().__init__(
            explain(
                f"Cannot call {method!r} on the module.",
                fix="Pass the name of a method, a method, or a function that takes the module first.",
            )
        )


class CallCompactUnboundModuleError(LayerError):
    """Cause: a module is called without variables.

    Wrong: `Dense(3)(x)`. Right: `Dense(3).apply(variables, x)`, or `Dense(3).bind(variables)(x)`.
    """

    def __init__(self) -> None:
        super().__init__(
            explain(
                "A compact method is called on an unbound module.",
                fix="Call model.init(key, ...) and model.apply(variables, ...).",
            )
        )


class CallSetupUnboundModuleError(LayerError):
    """Cause: `setup` is called by hand on a module without variables.

    Wrong: `model.setup()`. Right: `model.apply(...)` or `model.bind(variables)`, which call it.
    """

    def __init__(self) -> None:
        super().__init__(explain("setup() is called on an unbound module.", fix="Use init, apply or bind."))


class CallUnbindOnUnboundModuleError(LayerError):
    """Cause: `unbind` is called on a module without variables.

    Wrong: `Dense(3).unbind()`. Right: `Dense(3).bind(variables).unbind()`.
    """

    def __init__(self) -> None:
        super().__init__(explain("unbind() is called on an unbound module.", fix="Bind it first."))


class CallShareScopeOnUnboundModuleError(LayerError):
    """Cause: `share_scope` is called on a module without variables.

    Wrong: `share_scope(Dense(3), Dense(4))`. Right: call it in `setup`, on `self` and a submodule.
    """

    def __init__(self) -> None:
        super().__init__(explain("share_scope() is called on an unbound module.", fix="Call it in setup()."))


class InvalidInstanceModuleError(LayerError):
    """Cause: `init`, `apply` or `bind` is called on a class.

    Wrong: `Dense.init(key, x)`. Right: `Dense(3).init(key, x)`.
    """

    def __init__(self) -> None:
        super().__init__(explain("A module class is used where an instance is needed.", fix="Construct it first."))


class IncorrectPostInitOverrideError(LayerError):
    """Cause: a class overrides `__post_init__` and does not call the one of Module.

    Wrong: `def __post_init__(self): self.size = 2`. Right: end it with `super().__post_init__()`.
    """

    def __init__(self) -> None:
        super().__init__(
            explain("__post_init__ does not call super().__post_init__().", fix="Add the call at its end.")
        )


class DescriptorAttributeError(LayerError):
    """Cause: a property of a module raised AttributeError while it was computed.

    Wrong: `@property def size(self): return self.missing`. Right: name an attribute that exists.
    """

    def __init__(self, name: str) -> None:
        super().__init__(explain(f"The property {name!r} raised AttributeError; see the error above."))


class TransformedMethodReturnValueError(LayerError):
    """Cause: a method under a lifted transformation returns a module or a Variable.

    Wrong: `linen.jit` on a method that returns `self.dense`. Right: return arrays.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            explain(f"The transformed method {name!r} returns a module or a Variable.", fix="Return arrays.")
        )


class TransformTargetError(LayerError):
    """Cause: a lifted transformation is given an instance.

    Wrong: `linen.vmap(Dense(3))`. Right: `linen.vmap(Dense)(3)`, or a method or function that takes the module first.
    """

    def __init__(self, target: Any) -> None:
        super().__init__(
            explain(
                f"A lifted transformation got {target!r}.",
                "It transforms module classes, and functions whose first argument is a module.",
                "Pass the class, then construct the result.",
            )
        )


class BroadcastVariableError(LayerError):
    """Cause: a variable that a scan shares between all steps is computed from the data of one step.

    Wrong: `variable_broadcast="params"` with `split_rngs={"params": True}`.
    Right: `split_rngs={"params": False}`, or `variable_axes={"params": 0}` for parameters of each step.
    """

    def __init__(self) -> None:
        super().__init__(
            explain(
                "scan: a broadcast variable or output depends on the loop's carry, inputs or split keys.",
                "It must be the same for every step.",
                'Use split_rngs={"params": False}, or variable_axes instead of variable_broadcast.',
            )
        )
