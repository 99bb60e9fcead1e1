# SPDX-License-Identifier: Apache-2.0
"""Transformations that know a module's variables and keys: vmap, scan, jit, remat and the others, for modules.

Each takes a module class (and returns a class), a method, or a function whose first argument is a module; cond, while_loop,
vjp and the like are called on the spot with functions of a module. Filters say which collections and random streams go
through, and how: `variable_axes={"params": 0}` gives each lane or step its own parameters, `variable_broadcast="params"`
shares them, `split_rngs={"dropout": True}` draws other keys in each.

Parameters
----------
target : module class, method or function of a module
    What is transformed.
methods : sequence of str or mapping, optional
    Methods of the class that are transformed; `__call__` by default.
mdl : Module
    Whose variables the functions use; they take it first.
variables, rngs : filter
    Collections and streams that the function sees.
reduce_axes : optional
    Without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from purax.linen.filters import CollectionFilter, Filter
from purax.linen.frozen_dict import FrozenDict
from purax.linen.lifting import control, derivative, mapped
from purax.linen.lifting import variables as variables_of
from purax.linen.lifting.mapped import In, Out, broadcast
from purax.linen.lifting.modules import lift, lift_call
from purax.linen.module import Module

__all__ = [
    "In",
    "Out",
    "add_metadata_axis",
    "broadcast",
    "checkpoint",
    "cond",
    "custom_vjp",
    "fold_rngs",
    "grad",
    "jit",
    "jvp",
    "map_variables",
    "named_call",
    "remat",
    "remat_scan",
    "scan",
    "switch",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

_nothing: Mapping[Any, Any] = FrozenDict()


def vmap(
    target: Any,
    variable_axes: Mapping[Filter, Any] = _nothing,
    split_rngs: Mapping[Filter, bool] = _nothing,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    spmd_axis_name: str | None = None,
    metadata_params: Mapping[Any, Any] = _nothing,
    methods: Any = None,
) -> Any:
    """Map a module over an axis of its inputs, with parameters of its own for each lane or shared ones.

    Parameters
    ----------
    target : module class, method or function of a module
        What to map.
    variable_axes : mapping from filter to int or None
        Axis of each collection; None shares it. Collections that are not named are not seen.
    split_rngs : mapping from filter to bool
        Whether each lane gets its own keys of a stream. Streams that are not named are not seen.
    in_axes, out_axes
        Axes of arguments and results, as for `purax.vmap`.
    axis_size : int, optional
        Number of lanes, where no argument tells it.
    axis_name : str, optional
        Name of the axis for collectives.
    metadata_params : mapping
        What boxes of variables are told about the new axis.
    methods : sequence of str or mapping, optional
        Methods of the class to map; `__call__` by default.
    spmd_axis_name : str, optional
        As for `purax.vmap`.

    Returns
    -------
    as `target`

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> Lanes = linen.vmap(linen.Dense, variable_axes={"params": 0}, split_rngs={"params": True})
    >>> Lanes(3).init(random.key(0), pnp.ones((5, 2)))["params"]["kernel"].shape
    (5, 2, 3)
    """
    return lift(
        mapped.vmap,
        target,
        methods,
        variable_axes=variable_axes,
        split_rngs=split_rngs,
        in_axes=in_axes,
        out_axes=out_axes,
        axis_size=axis_size,
        axis_name=axis_name,
        spmd_axis_name=spmd_axis_name,
        metadata_params=metadata_params,
    )


def scan(
    target: Any,
    variable_axes: Mapping[Filter, Any] = _nothing,
    variable_broadcast: CollectionFilter = False,
    variable_carry: CollectionFilter = False,
    split_rngs: Mapping[Filter, bool] = _nothing,
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    data_transform: Callable[..., Any] | None = None,
    metadata_params: Mapping[Any, Any] = _nothing,
    methods: Any = None,
    _split_transpose: bool = False,
    check_constancy_invariants: bool = True,
) -> Any:
    """Loop a module whose method is `(carry, *xs) -> (carry, ys)` over an axis of `xs`.

    Parameters
    ----------
    target : module class, method or function of a module
        The step.
    variable_axes : mapping from filter to int
        Collections with an entry per step, such as the parameters of each layer of a deep stack.
    variable_broadcast : filter
        Collections that all steps share and do not change after their initialization.
    variable_carry : filter
        Collections that each step hands to the next, such as a counter.
    split_rngs : mapping from filter to bool
        Whether each step gets its own keys of a stream.
    in_axes, out_axes
        Axes of inputs and outputs; `broadcast` gives an argument whole to each step.
    length : int, optional
        Number of steps, where no argument tells it.
    reverse, unroll
        As for `purax.lax.scan`.
    data_transform : callable, optional
        Changes the groups of variables and keys at the start of each step.
    metadata_params : mapping
        What boxes of variables are told about the axis.
    methods : sequence of str or mapping, optional
        Methods of the class to loop; `__call__` by default.
    check_constancy_invariants : bool
        Whether to make and check shared variables in a pass of its own; False saves one trace.
    _split_transpose : bool
        Without effect.

    Returns
    -------
    as `target`

    Raises
    ------
    BroadcastVariableError
        If a shared variable depends on the data of one step.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> Layers = linen.scan(linen.GRUCell, variable_broadcast="params", split_rngs={"params": False})
    >>> cell, xs = Layers(4), pnp.ones((7, 2, 3))
    >>> carry = pnp.zeros((2, 4))
    >>> variables = cell.init(random.key(0), carry, xs)
    >>> cell.apply(variables, carry, xs)[1].shape
    (7, 2, 4)
    """
    return lift(
        mapped.scan,
        target,
        methods,
        variable_axes=variable_axes,
        variable_broadcast=variable_broadcast,
        variable_carry=variable_carry,
        split_rngs=split_rngs,
        in_axes=in_axes,
        out_axes=out_axes,
        length=length,
        reverse=reverse,
        unroll=unroll,
        data_transform=data_transform,
        metadata_params=metadata_params,
        _split_transpose=_split_transpose,
        check_constancy_invariants=check_constancy_invariants,
    )


def jit(
    target: Any,
    variables: CollectionFilter = True,
    rngs: Filter = True,
    static_argnums: Any = (),
    static_argnames: Any = (),
    donate_argnums: Any = (),
    device: Any = None,
    backend: str | None = None,
    methods: Any = None,
) -> Any:
    """Compile a module's method; argument numbers count the module as 0.

    Parameters
    ----------
    target : module class, method or function of a module
        What to compile.
    variables, rngs : filter
        Collections and streams that the method sees.
    static_argnums, static_argnames, donate_argnums
        As for `purax.jit`.
    methods : sequence of str or mapping, optional
        Methods of the class to compile; `__call__` by default.
    device, backend : None

    Returns
    -------
    as `target`

    Raises
    ------
    ValueError
        A device or backend.
    """
    if device is not None or backend is not None:
        raise ValueError("jit of a module takes no device or backend; place its inputs with purax.device_put.")
    return lift(
        control.jit,
        target,
        methods,
        True,
        variables=variables,
        rngs=rngs,
        programs=control.Programs(
            static_argnums=(0, *control.shifted(static_argnums, 2)),
            static_argnames=static_argnames or None,
            donate_argnums=control.shifted(donate_argnums, 2),
        ),
    )


def checkpoint(
    target: Any,
    variables: CollectionFilter = True,
    rngs: Filter = True,
    concrete: bool = False,
    prevent_cse: bool = True,
    static_argnums: Any = (),
    policy: Callable[..., bool] | None = None,
    methods: Any = None,
) -> Any:
    """Compute a module again in the backward pass instead of keeping its intermediate values.

    Parameters
    ----------
    target : module class, method or function of a module
        What to recompute.
    variables, rngs : filter
        Collections and streams that the method sees.
    prevent_cse, policy
        As for `purax.checkpoint`.
    static_argnums : int or sequence of int
        Arguments that Python code depends on; the module counts as 0.
    methods : sequence of str or mapping, optional
        Methods of the class; `__call__` by default.
    concrete : bool
        Must be False.

    Returns
    -------
    as `target`
    """
    return lift(
        control.checkpoint,
        target,
        methods,
        variables=variables,
        rngs=rngs,
        concrete=concrete,
        prevent_cse=prevent_cse,
        static_argnums=static_argnums,
        policy=policy,
    )


remat = checkpoint


def remat_scan(
    target: Any,
    lengths: Sequence[int] = (),
    policy: Callable[..., bool] | None = None,
    variable_broadcast: CollectionFilter = False,
    variable_carry: CollectionFilter = False,
    variable_axes: Mapping[Filter, Any] = FrozenDict({True: 0}),
    split_rngs: Mapping[Filter, bool] = FrozenDict({True: True}),
) -> Any:
    """Stack a module `carry -> carry` a product of `lengths` times, with memory that grows as the sum of them.

    Parameters
    ----------
    target : module class, method or function of a module
        One layer.
    lengths : sequence of int
        Lengths of the nested loops; the inner ones are recomputed in the backward pass.
    policy, variable_broadcast, variable_carry, variable_axes, split_rngs
        As for `checkpoint` and `scan`.

    Returns
    -------
    as `target`
    """
    return lift(
        mapped.remat_scan,
        target,
        lengths=tuple(lengths),
        policy=policy,
        variable_broadcast=variable_broadcast,
        variable_carry=variable_carry,
        variable_axes=variable_axes,
        split_rngs=split_rngs,
    )


def map_variables(
    target: Any,
    mapped_collections: CollectionFilter = True,
    trans_in_fn: Callable[..., Any] = lambda collections: collections,
    trans_out_fn: Callable[..., Any] = lambda collections: collections,
    init: bool = False,
    mutable: bool = False,
    rngs: Filter = True,
    variables: CollectionFilter = True,
    methods: Any = None,
) -> Any:
    """Let a module see some collections through a function, such as tied or normalized weights.

    Parameters
    ----------
    target : module class, method or function of a module
        What sees them.
    mapped_collections : filter
        Collections to map.
    trans_in_fn, trans_out_fn : callable
        From `{collection: variables}` as stored to what the module sees, and back.
    init : bool
        Whether the module's own initialization is stored, through `trans_out_fn`.
    mutable : bool
        Whether changes of the mapped collections are stored.
    rngs, variables : filter
        Other streams and collections that the module sees.
    methods : sequence of str or mapping, optional
        Methods of the class; `__call__` by default.

    Returns
    -------
    as `target`
    """
    return lift(
        variables_of.map_variables,
        target,
        methods,
        mapped_collections=mapped_collections,
        trans_in_fn=trans_in_fn,
        trans_out_fn=trans_out_fn,
        init=init,
        mutable=mutable,
        rngs=rngs,
        variables=variables,
    )


def fold_rngs(target: Any, variables: CollectionFilter = True, rngs: Filter = True) -> Any:
    """Give each call of a module keys of its own, as `jit` does: made from the path once, before the call.

    See `purax.linen.lift` for the arguments that its functions share.

    Returns
    -------
    as `target`
    """
    return lift(variables_of.fold_rngs, target, None, True, variables=variables, rngs=rngs)


def add_metadata_axis(
    target: Any, variable_axes: Mapping[Filter, Any] = _nothing, metadata_params: Mapping[Any, Any] = _nothing
) -> Any:
    """Tell the boxes of a module's variables about an axis that the module itself does not see.

    Parameters
    ----------
    variable_axes : mapping from filter to int or None
        The axis of each collection.
    metadata_params : mapping
        What the boxes are told about it.

    Returns
    -------
    as `target`
    """
    return lift(variables_of.add_metadata_axis, target, variable_axes=variable_axes, metadata_params=metadata_params)


def named_call(class_fn: Any, force: bool = True) -> Any:
    """Return the class or method; `enable_named_call`, not this, names module calls in profiles.

    Parameters
    ----------
    force : bool
        Without effect.
    class_fn : module class or method

    Returns
    -------
    class_fn
    """
    del force
    return class_fn


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    mdl: Module,
    *operands: Any,
    variables: CollectionFilter = True,
    rngs: Filter = True,
) -> Any:
    """Call `true_fun(mdl, *operands)` or `false_fun(mdl, *operands)`, by a traced predicate.

    Both must change the same variables; let submodules initialize by calling both once where `mdl.is_initializing()`.

    See `purax.linen.lift` for the arguments that its functions share.

    Parameters
    ----------
    pred : bool[]
    true_fun, false_fun : callable
    operands : pytrees of arrays

    Returns
    -------
    what the functions return
    """
    return lift_call(control.cond, (true_fun, false_fun), mdl, *operands, pred=pred, variables=variables, rngs=rngs)


def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    mdl: Module,
    *operands: Any,
    variables: CollectionFilter = True,
    rngs: Filter = True,
) -> Any:
    """Call `branches[index](mdl, *operands)`, by a traced index.

    See `purax.linen.lift` for the arguments that its functions share.

    Parameters
    ----------
    index : int[]
    branches : sequence of callable
    operands : pytrees of arrays

    Returns
    -------
    what the functions return
    """
    return lift_call(control.switch, tuple(branches), mdl, *operands, index=index, variables=variables, rngs=rngs)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    mdl: Module,
    init: Any,
    carry_variables: CollectionFilter = False,
    broadcast_variables: CollectionFilter = True,
    split_rngs: Mapping[Filter, bool] = _nothing,
) -> Any:
    """Repeat `carry = body_fn(mdl, carry)` while `cond_fn(mdl, carry)`.

    Parameters
    ----------
    cond_fn, body_fn : callable
        Take the module and the carry.
    mdl : Module
        Module whose variables they use.
    init
        First carry.
    carry_variables : filter
        Collections that the body may change.
    broadcast_variables : filter
        Collections that it reads.
    split_rngs : mapping from filter to bool
        Whether each step gets its own keys of a stream.

    Returns
    -------
    pytree like `init`
        The last carry.
    """
    return lift_call(
        control.while_loop,
        (cond_fn, body_fn),
        mdl,
        init,
        carry_variables=carry_variables,
        broadcast_variables=broadcast_variables,
        split_rngs=split_rngs,
    )


def vjp(
    fn: Callable[..., Any],
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    vjp_variables: CollectionFilter = "params",
    variables: CollectionFilter = True,
    rngs: Filter = True,
    multi_scope: bool = False,
) -> Any:
    """Return `fn(mdl, *primals)` and its pullback, which gives cotangents of the variables and of the primals.

    See `purax.linen.lift` for the arguments that its functions share.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    mdl : Module
        Module whose variables are differentiated.
    *primals
        Arguments.
    has_aux : bool
        Whether `fn` returns `(result, aux)`.
    vjp_variables : filter
        Collections to differentiate.
    variables, rngs : filter
        Other collections and streams that it sees.
    multi_scope : bool
        Whether the variables' cotangents come as a list over the places of all modules that are involved.

    Returns
    -------
    (result, pullback) or (result, pullback, aux)
    """
    del reduce_axes
    return lift_call(
        derivative.vjp,
        (fn,),
        mdl,
        *primals,
        has_aux=has_aux,
        vjp_variables=vjp_variables,
        variables=variables,
        rngs=rngs,
        multi_scope=multi_scope,
    )


def value_and_grad(
    fn: Callable[..., Any],
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    variables: CollectionFilter = True,
    rngs: Filter = True,
) -> Any:
    """Return the scalar `fn(mdl, *primals)` and its gradients with respect to the primals, not to the variables.

    See `purax.linen.lift` for the arguments that its functions share.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    primals : pytrees of arrays
    has_aux : bool
        `fn` returns `(result, aux)`.

    Returns
    -------
    (value, gradients)
        The value with aux is a pair; the gradient of one primal comes alone, of several as a tuple.
    """
    del reduce_axes
    return lift_call(derivative.value_and_grad, (fn,), mdl, *primals, has_aux=has_aux, variables=variables, rngs=rngs)


def grad(
    fn: Callable[..., Any],
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    variables: CollectionFilter = True,
    rngs: Filter = True,
) -> Any:
    """Return the gradients of the scalar `fn(mdl, *primals)` with respect to the primals, not to the variables.

    See `purax.linen.lift` for the arguments that its functions share.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    primals : pytrees of arrays
    has_aux : bool
        `fn` returns `(result, aux)`.

    Returns
    -------
    gradients, or (gradients, aux)
    """
    value, gradients = value_and_grad(
        fn, mdl, *primals, has_aux=has_aux, reduce_axes=reduce_axes, variables=variables, rngs=rngs
    )
    return (gradients, value[1]) if has_aux else gradients


def jvp(
    fn: Callable[..., Any],
    mdl: Module,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    variable_tangents: Mapping[str, Any],
    variables: CollectionFilter = True,
    rngs: Filter = True,
) -> Any:
    """Return `fn(mdl, *primals)` and its derivative along tangents of the primals and of the variables.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    mdl : Module
        Module whose variables move.
    primals, tangents : sequence
        Arguments and their directions.
    variable_tangents : mapping
        Directions by collection, such as `{"params": {...}}`.
    variables, rngs : filter
        Other collections and streams that it sees.

    Returns
    -------
    (result, tangent)
    """
    return lift_call(derivative.jvp, (fn,), mdl, primals, tangents, variable_tangents, variables=variables, rngs=rngs)


def custom_vjp(
    fn: Callable[..., Any],
    forward_fn: Callable[..., Any],
    backward_fn: Callable[..., Any],
    grad_vars: CollectionFilter = "params",
    nondiff_argnums: Sequence[int] = (),
) -> Callable[..., Any]:
    """Return `fn(mdl, *args)` with a derivative of its own.

    Parameters
    ----------
    fn : callable
        Takes the module first.
    forward_fn : callable
        `(mdl, *args) -> (result, residuals)`; the residuals may be the pullback of `linen.vjp`.
    backward_fn : callable
        `(*nondiff_args, residuals, cotangent) -> (variable cotangents, *argument cotangents)`.
    grad_vars : filter
        Collections whose cotangents it returns.
    nondiff_argnums : sequence of int
        Arguments without derivative; the module counts as 0.

    Returns
    -------
    callable
    """

    def call(mdl: Module, *args: Any) -> Any:
        return lift_call(
            derivative.custom_vjp,
            (fn, forward_fn),
            mdl,
            *args,
            backward_fn=backward_fn,
            grad_vars=grad_vars,
            nondiff_argnums=tuple(nondiff_argnums),
        )

    return call
