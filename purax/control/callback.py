# SPDX-License-Identifier: Apache-2.0
"""Calls of Python functions from programs: the primitives behind `pure_callback`, `io_callback` and `debug.callback`.

Evaluated outside of a program, the function runs at once, and what it raises is what the caller sees. In a program it is an
XLA FFI call of a `HostFunction`. Mapped, one call serves all lanes: a loop over them on the host, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purax import errors, tree
from purax.control import tokens as _tokens  # noqa: F401  (its rules take tokens through programs)
from purax.control.host_function import Flattened, Lanes, Static, Tokened, sent
from purax.core.aval import array_aval
from purax.core.effects import DEBUG, IO, ORDERED_DEBUG, ORDERED_IO
from purax.core.ir import Equation, Var
from purax.core.primitive import Primitive
from purax.core.tokens import token_aval, token_rules
from purax.core.trace import aval_of
from purax.lowering.manual import manual_computation
from purax.primitives import cast, collective, joining, shape
from purax.runtime.array import Array
from purax.runtime.callback import HostFunction
from purax.runtime.tensor import PACKED, wider
from purax.runtime.transfer import put
from purax.sharding import PartitionSpec, rules
from purax.sharding.mesh import OneDevice
from purax.sharding.spread import uncut

__all__ = ["debug_callback_p", "io_callback", "io_callback_p", "pure_callback", "pure_callback_p"]


class HostCall(Primitive):
    """Call of a Python function of arrays.

    Params
    ------
    function : callable
        Flat: arrays in, tuple of arrays out (see `host_function.py`).
    results : tuple of ShapedArray
    effect : Effect or None
    method : str or None
        What `vmap` does.
    name : str
        What the user called, for messages.
    device : Device or None
        Where a program over several devices calls; None is the first of them.
    partitioned : bool
        Each device of such a program calls with its own piece.
    """

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """The function gets whole arrays, and gives such."""
        rules.refuse_sums(self.name, ins)
        if params["partitioned"] and not all(s.uncut() for s in ins):
            raise errors.ShardingTypeError(
                "the types of results of a function that each device calls with its piece are not known"
            )
        return [uncut(ins[0].mesh, out.ndim) for out in outs]

    def infer(self, *avals: Any, results: Any, **_: Any) -> Any:
        """The promised types."""
        return results

    def effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """The effect that the call was made with."""
        return frozenset() if params["effect"] is None else frozenset((params["effect"],))

    def reference(self, *operands: Any, function: Any, **_: Any) -> Any:
        """The function itself."""
        return function(*operands)

    def run(self, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Call the function now."""
        arrays = [x if type(x) is Array else put(x, aval_of(x)) for x in operands]
        found = params["function"](*[x.host for x in arrays])
        return tuple([put(value, aval) for value, aval in zip(found, params["results"], strict=True)])

    def jvp(self, primals: Any, tangents: Any, *, name: str, **_: Any) -> Any:
        """Raise: a Python function has no derivative rule."""
        kind = "Pure" if name == "pure_callback" else "IO"
        raise errors.CallbackDerivativeError(
            errors.explain(
                f"{kind} callbacks do not support JVP. A derivative reached {name}.",
                "the derivative of a Python function is not known",
                "give it one with custom_jvp or custom_vjp, or cut the derivative with lax.stop_gradient",
            )
        )

    def transpose(self, cotangents: Any, operands: Any, *, name: str, **_: Any) -> Any:
        """Raise: a Python function is not known to be linear."""
        kind = "Pure" if name == "pure_callback" else "IO"
        raise errors.CallbackDerivativeError(
            errors.explain(f"{kind} callbacks do not support transpose.", "a Python function is not known to be linear")
        )

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """One call that serves the lanes one by one."""
        moved = [x if d is None else shape.move_batch_axis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        mapped = tuple([d is not None for d in dims])
        outs = params["results"]
        stacked = tuple([a.update(shape=(axis.size, *a.shape)) for a in outs])
        function = Lanes(params["function"], axis.size, mapped, outs)
        results = self.bind(*moved, **{**params, "function": function, "results": stacked})
        return results, tuple([0] * len(outs))

    def lower(
        self, b: Any, ins: Any, outs: Any, *, function: Any, effect: Any, name: str, device: Any, partitioned: bool, **_: Any
    ) -> Any:  # fmt: skip
        """An FFI call of the function by its number; devices that share the operands leave it to one of them."""
        module = b.module
        module.callbacks.append(HostFunction(function, outs, name))
        target = f"xla_ffi{'_partitioned' if partitioned else ''}_python_{'cpu' if module.platform == 'cpu' else 'gpu'}_callback"
        attributes = [
            "api_version = 4 : i32",
            f"has_side_effect = {'false' if effect is None else 'true'}",
            f"backend_config = {{index = {len(module.callbacks) - 1} : ui64}}",
            f"operand_layouts = [{', '.join(_row_major(x.aval) for x in ins)}]",
            f"result_layouts = [{', '.join(_row_major(a) for a in outs)}]",
        ]
        if len(module.order) > 1 and module.manual is None and not partitioned:
            number = module.order.get(device, 0)
            mesh = module.mesh(OneDevice(next(d for d, n in module.order.items() if n == number), number))
            pieces = ", ".join([f"<@{mesh}, []>"] * max(1, len(outs)))
            attributes.append(f"sdy.sharding = #sdy.sharding_per_value<[{pieces}]>")

        def call(inner: Any, *xs: Any) -> Any:
            types = f"({', '.join(x.hlo for x in xs)}) -> ({', '.join(a.hlo for a in outs)})"
            text = f"stablehlo.custom_call @{target}({', '.join(map(str, xs))}) {{{', '.join(attributes)}}} : {types}"
            return inner.emit_many(text, outs)

        manual = module.manual
        shared = () if manual is None else [n for n in manual.mesh.axis_names if n not in manual.axes]
        if effect is None or partitioned or len(module.order) <= 1 or not shared:
            return call(b, *ins)
        return _by_the_first(b, manual.mesh, shared, ins, outs, call)


def _by_the_first(b: Any, mesh: Any, axes: Any, ins: Any, outs: Any, call: Any) -> Any:
    """`call(builder, *ins)`, made by the first of the devices along `axes` alone; they all get its results.

    XLA refuses a call with an effect where the devices along some axes share a value (jaxlib 0.10.2), so these are taken in hand.
    """

    def body(inner: Any, *xs: Any) -> Any:
        numbers = [inner.module.manual.index(inner, name) for name in axes]
        later = numbers[0]  # 0 for the first device alone
        for number in numbers[1:]:
            later = inner.emit(f"stablehlo.or {later}, {number} : {number.hlo}", number.aval)
        zeros = lambda block: [block.constant(np.zeros((), a.dtype), a) for a in outs]
        regions = ", ".join([inner.block((), lambda block: call(block, *xs)), inner.block((), zeros)])
        types = ", ".join(a.hlo for a in outs)
        found = inner.emit_many(f'"stablehlo.case"({later}) ({regions}) : (tensor<i32>) -> ({types})', outs)
        return collective.psum_p.lower(inner, found, outs, axes=tuple(axes), groups=None)

    whole = PartitionSpec()
    specs = [whole] * len(ins), [whole] * len(outs)
    return manual_computation(b, mesh, axes, ins, specs[0], outs, specs[1], [x.aval for x in ins], body)


def _row_major(aval: Any) -> str:
    order = ", ".join(map(str, reversed(range(len(aval.shape)))))
    return f"dense<[{order}]> : tensor<{len(aval.shape)}xindex>"


class PureCallback(HostCall):
    """Call of a function without effects: it may be dropped, repeated or merged with an equal call."""

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """As `vmap_method` says: lane by lane, or one call with the mapped axis in front."""
        method = params["method"]
        if method is None:
            raise errors.CallbackBatchingError(
                errors.explain(
                    "vmap is only supported for pure_callback with a `vmap_method`; this call has none.",
                    "purax does not know whether the function can be called with arrays that have one axis more",
                    "pass vmap_method='sequential', 'broadcast_all' or 'expand_dims'",
                )
            )
        if method in ("sequential", "sequential_unrolled"):
            return super().batch(axis, operands, dims, **params)
        moved = []
        for x, d in zip(operands, dims, strict=True):
            if d is not None:
                moved.append(shape.move_batch_axis(x, d, 0))
            elif method == "legacy_vectorized":
                moved.append(x)
            else:
                moved.append(shape.broadcast_batch(x, axis.size if method == "broadcast_all" else 1, 0))
        outs = tuple([a.update(shape=(axis.size, *a.shape)) for a in params["results"]])
        function = params["function"].promising([a.shape for a in outs])
        return self.bind(*moved, **{**params, "function": function, "results": outs}), tuple([0] * len(outs))


class IoCallback(HostCall):
    """Call of a function with effects, which happens once."""

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Lane by lane, unless order matters: the order of lanes is not the user's to rely on."""
        if params["effect"].ordered:
            raise errors.CallbackBatchingError(
                errors.explain(
                    "Cannot `vmap` ordered IO callback.",
                    "the lanes of vmap have no order among each other",
                    "pass ordered=False, or loop with lax.map or lax.scan",
                )
            )
        return super().batch(axis, operands, dims, **params)


class DebugCallback(HostCall):
    """Call of a function that only looks at values."""

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Looks at the values; tangents pass unseen."""
        return self.bind(*primals, **params), ()

    def transpose(self, cotangents: Any, operands: Any, **_: Any) -> Any:
        """Nothing to pull back."""
        return (None,) * len(operands)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        """Lane by lane on the host; pieces of devices are cut before they get there."""
        if not params["partitioned"]:
            return super().batch(axis, operands, dims, **params)
        for lane in range(axis.size):
            self.bind(
                *[x if d is None else joining.index_in_dim(x, lane, d, False) for x, d in zip(operands, dims, strict=True)],
                **params,
            )  # fmt: skip
        return (), ()


pure_callback_p = PureCallback("pure_callback")
io_callback_p = IoCallback("io_callback")
debug_callback_p = DebugCallback("debug_callback")


@token_rules.register(io_callback_p)
@token_rules.register(debug_callback_p)
def _with_token(eqn: Equation, token: Any) -> Equation:
    params = eqn.params
    changed = {
        "function": Tokened(params["function"]), "results": (token_aval, *params["results"]),
        "effect": IO,
    }  # fmt: skip
    return eqn.replace(
        invars=[token, *eqn.invars], outvars=[Var(token_aval), *eqn.outvars], params={**params, **changed},
        effects=frozenset((IO,)),
    )  # fmt: skip


# --- the user's functions -----------------------------------------------------------------------------------------------------

_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None, vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a Python function without side effects from a program.

    The call may be left out where nothing uses its result, and repeated. Under `vmap`, `vmap_method` says what happens.

    Parameters
    ----------
    callback : callable
        Takes arrays as `args` and `kwargs` are, returns a pytree of array-likes.
    result_shape_dtypes : pytree of objects with `shape` and `dtype`
        Types of the result.
    *args, **kwargs : pytrees of arrays
    sharding : SingleDeviceSharding, optional
        The device that makes the call in a program over several devices.
    vmap_method : str, optional
        "sequential" and "sequential_unrolled" call once per lane. "expand_dims" and "broadcast_all" call once with the mapped
        axis in front, which has size 1, or the full size, in arguments that are not mapped; "legacy_vectorized" leaves
        these as they are.

    Returns
    -------
    pytree of arrays
        Of the types of `result_shape_dtypes`.

    Raises
    ------
    CallbackDerivativeError
        It is differentiated.
    CallbackBatchingError
        It is mapped without a `vmap_method`.
    CallbackResultError
        The function returned other types. From a program it reaches the caller as the cause of a JaxRuntimeError.
    ValueError
        Another `vmap_method`.
    """
    if vmap_method not in _METHODS:
        raise ValueError(f"pure_callback: vmap_method must be one of {_METHODS}, got {vmap_method!r}")
    return _call(pure_callback_p, callback, result_shape_dtypes, args, kwargs, None, vmap_method, sharding)


def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None, ordered: bool = False,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a Python function with side effects from a program; it is called even if nothing uses its result.

    Parameters
    ----------
    callback : callable
        Takes arrays as `args` and `kwargs` are, returns a pytree of array-likes.
    result_shape_dtypes : pytree of objects with `shape` and `dtype`, or None
        Types of the result.
    *args, **kwargs : pytrees of arrays
    sharding : SingleDeviceSharding, optional
        The device that makes the call in a program over several devices.
    ordered : bool
        Keep the order that ordered effects have in the program.

    Returns
    -------
    pytree of arrays

    Raises
    ------
    CallbackDerivativeError
        It is differentiated.
    CallbackBatchingError
        It is ordered and mapped.
    """
    effect = ORDERED_IO if ordered else IO
    return _call(io_callback_p, callback, result_shape_dtypes, args, kwargs, effect, None, sharding)


def _call(
    primitive: HostCall,
    callback: Any,
    result_types: Any,
    args: Any,
    kwargs: Any,
    effect: Any,
    method: Any,
    sharding: Any,
) -> Any:
    name = primitive.name
    if not callable(callback):
        raise TypeError(f"{name}: the first argument must be callable, got {callback!r}")
    leaves, in_tree = tree.flatten((args, kwargs))
    given = tuple([aval_of(x).dtype for x in leaves])
    structs, out_tree = tree.flatten(result_types)
    outs = tuple([_promised(name, s) for s in structs])
    moved = tuple([a.update(dtype=wider(a.dtype)) if a.dtype in PACKED else a for a in outs])
    found = primitive.bind(
        *map(sent, leaves), function=Flattened(callback, in_tree, given, out_tree, outs), results=moved, effect=effect,
        method=method, name=name, device=_device_of(name, sharding), partitioned=False,
    )  # fmt: skip
    return out_tree.unflatten([cast.convert_element_type(x, a.dtype) if a is not m else x for x, a, m in zip(found, outs, moved, strict=True)])  # fmt: skip


def _promised(name: str, struct: Any) -> Any:
    try:
        if hasattr(struct, "shape") and hasattr(struct, "dtype"):
            return array_aval(tuple(struct.shape), np.dtype(struct.dtype))
        return aval_of(struct).strip_weak()
    except TypeError:
        raise ValueError(
            f"{name}: result_shape_dtypes must hold objects with shape and dtype (purax.ShapeDtypeStruct), got {struct!r}"
        ) from None


def _device_of(name: str, sharding: Any) -> Any:
    if sharding is None:
        return None
    devices = getattr(sharding, "device_set", None)
    if devices is None or len(devices) != 1:
        raise ValueError(f"{name}: `sharding` must be a sharding on one device, got {sharding!r}")
    (device,) = devices
    return device


def look(
    callback: Callable[..., Any], args: Any, kwargs: dict[str, Any], ordered: bool, partitioned: bool, name: str
) -> None:
    """Call a function that looks at values: the flat form of `debug.callback` and its relatives."""
    leaves, in_tree = tree.flatten((args, kwargs))
    given, operands = [], []
    for leaf in leaves:
        try:
            given.append(aval_of(leaf).dtype)
        except TypeError:
            given.append(Static(leaf))
        else:
            operands.append(sent(leaf))
    debug_callback_p.bind(
        *operands, function=Flattened(callback, in_tree, tuple(given), None, ()), results=(),
        effect=ORDERED_DEBUG if ordered else DEBUG, method=None, name=name, device=None, partitioned=partitioned,
    )  # fmt: skip
