# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode differentiation: a tape of linear operations.

`DualTrace` runs the primal computation in the parent trace and each primitive's jvp rule with `LinearTrace` current. What the
rule does with primal values alone is evaluated; what it does with tangents is appended to the tape as
`(primitive, operands with concrete residuals, params)`. Walking the tape backwards with the `transpose` rules pulls cotangents
back; walking it forwards pushes tangents. So the contract needs no vjp rules, and eager derivatives stage nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import dtypes, errors, tree
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Equation, Jaxpr, Var
from purax.core.axes import lane_axes
from purax.core.passes import dead_code
from purax.core.primitive import Linear
from purax.core.source import current_source
from purax.core.trace import Trace, Tracer, aval_of, bind_in, current
from purax.primitives import cast, collective, elementwise, shape
from purax.primitives.base import instantiate, is_differentiable, zeros_of
from purax.transforms.flat import argument_names, check_arrays, flat_function, float0_zeros, name_of, normal_argnums

__all__ = ["Tape", "grad", "linearize", "linearize_flat", "value_and_grad", "vjp"]


class LinearTracer(Tracer):
    """A tangent on the tape: known by its number only."""

    __slots__ = ("index",)

    def __init__(self, trace: Any, aval: Any, index: int) -> None:
        self._trace = trace
        self.aval = aval
        self.index = index


class Entry:
    """One linear operation of the tape."""

    __slots__ = ("operands", "outs", "params", "primitive", "source")

    def __init__(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any], outs: list[LinearTracer], source: Any) -> None:
        self.primitive = primitive
        self.operands = operands
        self.params = params
        self.outs = outs
        self.source = source


class LinearTrace(Trace):
    """Records the operations that touch tangents, evaluates the rest in the parent."""

    __slots__ = ("count", "entries")
    kind = "linearize"

    def __init__(self, parent: Any, name: str = "") -> None:
        super().__init__(parent, name)
        self.entries: list[Entry] = []
        self.count = 0

    def new_input(self, aval: Any) -> LinearTracer:
        """A new tangent."""
        self.count += 1
        return LinearTracer(self, aval, self.count)

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Append to the tape if an operand is on it."""
        for x in operands:
            if type(x) is LinearTracer and x._trace is self:
                break
        else:
            token = current.set(self.parent)
            try:
                return bind_in(self.parent, primitive, operands, params)
            finally:
                current.reset(token)
        avals = primitive.outputs(tuple([aval_of(x) for x in operands]), params)
        return tuple(self.append(primitive, operands, params, avals))

    def append(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any], avals: Sequence[Any]) -> list[LinearTracer]:
        """Record one operation; returns the tangents that it gives."""
        outs = [self.new_input(aval) for aval in avals]
        self.entries.append(Entry(primitive, operands, params, outs, current_source(5)))
        return outs


class DualTracer(Tracer):
    """A primal value and its tangent on the tape."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Any, primal: Any, tangent: LinearTracer) -> None:
        self._trace = trace
        self.aval = aval_of(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        """The primal, if it is known."""
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal


class DualTrace(Trace):
    """Runs primals in the parent and tangents on the tape."""

    __slots__ = ("linear",)
    kind = "grad"

    def __init__(self, parent: Any, linear: LinearTrace, name: str = "") -> None:
        super().__init__(parent, name)
        self.linear = linear

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Apply the primitive's jvp (or linearize) rule with the tape as current trace."""
        primals, tangents, active = [], [], False
        for x in operands:
            if type(x) is DualTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                active = True
            else:
                primals.append(x)
                tangents.append(None)
        if not active:
            token = current.set(self.parent)
            try:
                return bind_in(self.parent, primitive, operands, params)
            finally:
                current.reset(token)
        plan = fused.tape_plan(primitive, primals, tangents, params) if self.parent is None else None
        token = current.set(None if plan is not None else self.linear)
        try:
            if plan is not None:
                outs, out_tangents = plan(self.linear, primals, tangents)
            elif primitive.linearize is not None:
                outs, out_tangents = primitive.linearize(tuple(primals), tuple(tangents), params)
            else:
                outs, out_tangents = primitive.jvp(tuple(primals), tuple(tangents), **params)
        finally:
            current.reset(token)
        return tuple([o if t is None else DualTracer(self, o, t) for o, t in zip(outs, out_tangents, strict=True)])


class Tape:
    """A linear map: inputs, recorded operations, outputs (None where the output does not depend on the inputs)."""

    __slots__ = ("entries", "inputs", "outputs", "trace")

    def __init__(self, trace: LinearTrace, inputs: list[LinearTracer | None], outputs: list[Any]) -> None:
        self.trace = trace
        self.entries = trace.entries
        self.inputs = inputs
        self.outputs = outputs

    def forward(self, tangents: Sequence[Any]) -> list[Any]:
        """Push tangents (None: zero) through; returns the output tangents, None where zero."""
        env: dict[int, Any] = {
            i.index: instantiate(t, i) for i, t in zip(self.inputs, tangents, strict=True) if i is not None
        }
        for entry in self.entries:
            operands = [env[x.index] if self._own(x) else x for x in entry.operands]
            outs = entry.primitive.bind(*operands, **entry.params)
            env.update(zip([o.index for o in entry.outs], outs, strict=True))
        return [env[o.index] if self._own(o) else o for o in self.outputs]

    def backward(self, cotangents: Sequence[Any]) -> list[Any]:
        """Pull cotangents (None: zero) back; returns one cotangent per input, None where zero."""
        found: dict[int, Any] = {}
        for out, cotangent in zip(self.outputs, cotangents, strict=True):
            if out is not None and cotangent is not None:
                _accumulate(found, out.index, collective.total(cotangent, out.aval))
        for entry in reversed(self.entries):
            outs = tuple([found.pop(o.index, None) for o in entry.outs])
            if not any(c is not None for c in outs):
                continue
            operands = tuple([Linear(x.aval) if self._own(x) else x for x in entry.operands])
            results = entry.primitive.transpose(outs, operands, **entry.params)
            if entry.primitive.types_axes or entry.outs[0].aval.varying:
                avals = [aval_of(x) for x in entry.operands]
                results = collective.settle(entry.primitive, entry.params, avals, [o.aval for o in entry.outs], results)
            for x, cotangent in zip(entry.operands, results, strict=True):
                if cotangent is not None and self._own(x):
                    _accumulate(found, x.index, cotangent)
        return [None if i is None else found.get(i.index) for i in self.inputs]

    def program(self) -> tuple[Jaxpr, list[Any]]:
        """The map as a jaxpr `(residuals, tangents) -> nonzero output tangents`, and its residuals."""
        residuals: dict[int, tuple[Any, Var]] = {}
        variables = {i.index: Var(i.aval) for i in self.inputs if i is not None}

        def atom(x: Any) -> Var:
            if self._own(x):
                return variables[x.index]
            return residuals.setdefault(id(x), (x, Var(aval_of(x))))[1]

        inputs = list(variables.values())
        eqns = []
        for entry in self.entries:
            operands = [atom(x) for x in entry.operands]
            variables.update((o.index, Var(o.aval)) for o in entry.outs)
            outs = [variables[o.index] for o in entry.outs]
            eqns.append(Equation(operands, outs, entry.primitive, entry.params, entry.source))
        outvars = [atom(o) for o in self.outputs if o is not None]
        jaxpr = Jaxpr([], [*(v for _, v in residuals.values()), *inputs], outvars, eqns, (), self.trace.name)
        jaxpr, used = dead_code(jaxpr)
        kept = [x for (x, _), u in zip(residuals.values(), used, strict=False) if u]
        invars = [v for (_, v), u in zip(residuals.values(), used, strict=False) if u]
        return Jaxpr([], [*invars, *inputs], jaxpr.outvars, jaxpr.eqns, (), self.trace.name), kept

    def _own(self, x: Any) -> bool:
        return type(x) is LinearTracer and x._trace is self.trace


def _accumulate(found: dict[int, Any], index: int, cotangent: Any) -> None:
    have = found.get(index)
    found[index] = cotangent if have is None else elementwise.add_p.bind1(have, cotangent)


def linearize_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], needed: Sequence[bool] | None = None
) -> tuple[list[Any], Tape]:
    """Outputs of `fun` at `primals`, and its derivative there as a tape."""
    linear = LinearTrace(current.get(), getattr(fun, "__name__", ""))
    dual = DualTrace(linear.parent, linear, linear.name)
    inputs: list[LinearTracer | None] = []
    operands = []
    for i, primal in enumerate(primals):
        aval = aval_of(primal)
        if (needed is None or needed[i]) and is_differentiable(aval.dtype):
            tangent = linear.new_input(aval.strip_weak())
            inputs.append(tangent)
            operands.append(DualTracer(dual, primal, tangent))
        else:
            inputs.append(None)
            operands.append(primal)
    token = current.set(dual)
    try:
        outputs = fun(*operands)
    finally:
        current.reset(token)
    outs, out_tangents = [], []
    for x in outputs:
        own = type(x) is DualTracer and x._trace is dual
        outs.append(x.primal if own else x)
        out_tangents.append(_as_varying(x) if own else None)
    return outs, Tape(linear, inputs, out_tangents)


def _as_varying(x: DualTracer) -> Any:
    """The tangent of an output; it varies over the named axes that the output varies over."""
    missing = x.aval.varying - x.tangent.aval.varying
    if not missing:
        return x.tangent
    return x._trace.linear.process(collective.pvary_p, (x.tangent,), {"axes": tuple(sorted(missing, key=str))})[0]


def strip(x: Any) -> Any:
    """The primal of a tracer of a finished derivative."""
    return x.primal if type(x) is DualTracer else x


# --- public forms -----------------------------------------------------------------------------------------------------------


def own_lanes(leaves: Sequence[Any]) -> Sequence[Any]:
    """Values to differentiate by: in vmap and pmap each lane's own, also where all lanes hold the same one."""
    lanes = lane_axes.get()
    return [collective.pvary(x, tuple(lanes)) if is_differentiable(aval_of(x).dtype) else x for x in leaves] if lanes else leaves


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()) -> Any:
    """Output of `fun` and the function that pulls cotangents back.

    Parameters
    ----------
    fun : callable
    *primals : pytrees of arrays
        Where to differentiate.
    has_aux : bool
        `fun` returns `(output, auxiliary data)`.

    Returns
    -------
    output : pytree
    pullback : callable
        Takes a cotangent with the structure, shapes and dtypes of the output; returns a tuple with one cotangent per primal.
        With `has_aux`, the auxiliary data follows.
    """
    del reduce_axes
    leaves, treedef = tree.flatten(primals)
    check_arrays("vjp", leaves, lambda: argument_names(fun, primals))
    leaves = own_lanes(leaves)
    flat, store = flat_function(fun, treedef, has_aux=has_aux)
    outs, tape = linearize_flat(flat, leaves)
    pullback = Pullback(tape, [aval_of(x) for x in leaves], [aval_of(o) for o in outs], treedef, store.out_tree, name_of(fun))
    result = store.out_tree.unflatten(outs), pullback
    return (*result, store.aux(strip)) if has_aux else result


class Pullback:
    """The function that `vjp` returns."""

    def __init__(self, tape: Tape, in_avals: list[Any], out_avals: list[Any], in_tree: Any, out_tree: Any, name: str) -> None:
        self.tape = tape
        self.in_avals = in_avals
        self.out_avals = out_avals
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.__name__ = f"pullback of {name}"

    def __call__(self, cotangent: Any) -> Any:
        """Pull one cotangent back."""
        leaves, treedef = tree.flatten(cotangent)
        if treedef != self.out_tree:
            raise ValueError(
                f"unexpected tree structure of argument to vjp function: got {treedef}, but expected to match {self.out_tree}"
            )
        checked = [_check_cotangent(c, a) for c, a in zip(leaves, self.out_avals, strict=True)]
        results = self.tape.backward(checked)
        return self.in_tree.unflatten([explicit(c, a) for c, a in zip(results, self.in_avals, strict=True)])


def explicit(cotangent: Any, aval: Any) -> Any:
    """A cotangent as the user sees it: zeros where symbolic, float0 for integers."""
    if cotangent is not None:
        return cotangent
    return zeros_of(aval.strip_weak()) if is_differentiable(aval.dtype) else float0_zeros(aval.shape)


def _check_cotangent(cotangent: Any, aval: Any) -> Any:
    if getattr(cotangent, "dtype", None) == dtypes.float0 or not is_differentiable(aval.dtype):
        if getattr(cotangent, "dtype", None) != dtypes.float0 or is_differentiable(aval.dtype):
            raise ValueError(_cotangent_message(cotangent, aval))
        return None
    given = aval_of(cotangent)
    if given.shape != aval.shape or (given.dtype != aval.dtype and not given.weak_type):
        raise ValueError(_cotangent_message(cotangent, aval))
    if given.dtype != aval.dtype:
        return cast.convert_element_type(cotangent, aval.dtype)
    return cotangent


def _cotangent_message(cotangent: Any, aval: Any) -> str:
    want = aval.str_short() if is_differentiable(aval.dtype) else f"float0[{','.join(map(str, aval.shape))}]"
    got = "float0" if getattr(cotangent, "dtype", None) == dtypes.float0 else aval_of(cotangent).str_short()
    return f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got {got}, but expected {want} because the corresponding output of the function had type {aval.str_short()}"  # noqa: E501


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Output of `fun` and its derivative at `primals` as a function of tangents, computed once and applied often.

    Returns
    -------
    output : pytree
    pushforward : callable
        Takes tangents like `primals`, returns the output tangent. With `has_aux`, the auxiliary data follows.
    """
    leaves, treedef = tree.flatten(primals)
    check_arrays("linearize", leaves, lambda: argument_names(fun, primals))
    leaves = own_lanes(leaves)
    flat, store = flat_function(fun, treedef, has_aux=has_aux)
    outs, tape = linearize_flat(flat, leaves)
    jaxpr, residuals = tape.program()
    signature = _Signature(treedef, store.out_tree, [aval_of(x) for x in leaves], [aval_of(o) for o in outs], tape)
    pushforward = tree.Partial(functools.partial(_push, jaxpr, signature), *residuals)
    result = store.out_tree.unflatten(outs), pushforward
    return (*result, store.aux(strip)) if has_aux else result


class _Signature:
    """Structures and types of a linearized function, and which of its inputs and outputs the linear program has."""

    def __init__(self, in_tree: Any, out_tree: Any, in_avals: list[Any], out_avals: list[Any], tape: Tape) -> None:
        self.in_tree, self.out_tree, self.in_avals, self.out_avals = in_tree, out_tree, in_avals, out_avals
        self.in_used = [i is not None for i in tape.inputs]
        self.out_used = [o is not None for o in tape.outputs]

    def check(self, tangents: Any) -> list[Any]:
        """Leaves of the tangents, each of the type of its primal."""
        given, given_tree = tree.flatten(tangents)
        if given_tree != self.in_tree:
            raise ValueError(
                "linearized function called with tangents whose structure differs from that of the original primals: "
                f"got {given_tree}, expected {self.in_tree}"
            )
        for tangent, aval in zip(given, self.in_avals, strict=True):
            expected = aval if is_differentiable(aval.dtype) else aval.update(dtype=dtypes.float0)
            have = aval_of(tangent)
            if have.shape != aval.shape or have.dtype != expected.dtype:
                raise ValueError(
                    "linearized function called on tangent values inconsistent with the original primal values: "
                    f"got tangent aval {have.str_short()} for primal aval {aval.str_short()} but expected {expected.str_short()}"
                )
        return given


def _push(jaxpr: Jaxpr, signature: _Signature, *residuals_and_tangents: Any) -> Any:
    split = len(residuals_and_tangents) - len(tree.treedef_children(signature.in_tree))
    residuals, tangents = residuals_and_tangents[:split], residuals_and_tangents[split:]
    given = signature.check(tangents)
    inputs = [t for t, used in zip(given, signature.in_used, strict=True) if used]
    results = iter(eval_jaxpr(jaxpr, (), *residuals, *inputs))
    full = [next(results) if used else None for used in signature.out_used]
    return signature.out_tree.unflatten([explicit(t, a) for t, a in zip(full, signature.out_avals, strict=True)])


def grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., Any]:  # fmt: skip
    """Function that computes the gradient of a scalar-valued `fun`.

    Parameters
    ----------
    fun : callable
        Returns a scalar of floating dtype (complex if `holomorphic`).
    argnums : int or sequence of int
        Which positional arguments to differentiate with respect to.
    has_aux : bool
        `fun` returns `(output, auxiliary data)`; the gradient function then returns `(gradient, auxiliary data)`.
    holomorphic, allow_int : bool
        Promise that `fun` is holomorphic; allow integer arguments (their gradient is `float0`).

    Returns
    -------
    callable
        With the arguments of `fun`; its output has the structure of the arguments named by `argnums`.
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, result = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return _like(gradient, fun, "grad")


def value_and_grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., Any]:  # fmt: skip
    """Function that computes both `fun` and its gradient; see `grad`.

    Returns
    -------
    callable
        Returns `(value, gradient)`; the value is `(output, auxiliary data)` with `has_aux`.
    """
    del reduce_axes
    if not callable(fun):
        raise TypeError(f"grad: the first argument must be callable, got {fun!r}")
    if not isinstance(argnums, (int, np.integer)):
        argnums = tuple(argnums)

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        positions = normal_argnums(argnums, len(args), name_of(fun))
        chosen = args[positions[0]] if isinstance(argnums, (int, np.integer)) else tuple(args[i] for i in positions)
        leaves, treedef = tree.flatten(chosen)
        check_arrays(f"grad({name_of(fun)})", leaves, lambda: _chosen_names(fun, args, positions))
        for i, leaf in enumerate(leaves):
            _check_input(leaf, holomorphic, allow_int, lambda i=i: _chosen_names(fun, args, positions)[i])

        def partial(chosen: Any) -> Any:
            full = list(args)
            for i, value in zip(positions, (chosen,) if isinstance(argnums, (int, np.integer)) else chosen, strict=True):
                full[i] = value
            return fun(*full, **kwargs)

        def call(*leaves: Any) -> list[Any]:
            return flat(treedef.unflatten(leaves))

        flat, store = _scalar_function(partial, fun, has_aux)
        call.__name__ = name_of(fun)
        leaves = own_lanes(leaves)
        outs, tape = linearize_flat(call, leaves)
        out_aval = _check_output(outs[0], holomorphic, fun)
        results = tape.backward([shape.full_like_aval(out_aval.strip_weak(), 1)])
        gradient = treedef.unflatten([explicit(c, aval_of(x)) for c, x in zip(results, leaves, strict=True)])
        return ((outs[0], store.aux(strip)) if has_aux else outs[0]), gradient

    return _like(value_and_gradient, fun, "value_and_grad")


def _scalar_function(partial: Callable[[Any], Any], fun: Any, has_aux: bool) -> Any:
    from_pytree, store = flat_function(partial, _ONE_ARGUMENT, has_aux=has_aux)

    def flat(chosen: Any) -> list[Any]:
        outs = from_pytree(chosen)
        if len(outs) != 1 or store.out_tree != _LEAF:
            raise TypeError(
                f"Gradient only defined for scalar-output functions. {name_of(fun)} returned a pytree of structure {store.out_tree}; "
                "use has_aux=True for extra outputs, or jacrev for several."
            )
        return outs

    return flat, store


_ONE_ARGUMENT = tree.structure((0,))
_LEAF = tree.structure(0)


def _chosen_names(fun: Any, args: tuple[Any, ...], positions: tuple[int, ...]) -> list[str]:
    names = iter(argument_names(fun, args))
    per_argument = [[next(names) for _ in tree.leaves(arg)] for arg in args]
    return [name for i in positions for name in per_argument[i]]


def _check_input(leaf: Any, holomorphic: bool, allow_int: bool, name: Callable[[], str]) -> None:
    dtype = aval_of(leaf).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(f"grad with holomorphic=True requires inputs with complex dtype, but got {dtype} for argument {name()}.")
        return
    if isinstance(dtype, dtypes.KeyDtype) or (not dtypes.is_inexact(dtype) and not allow_int):
        raise TypeError(
            errors.explain(
                f"grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got {dtype} for argument {name()}",
                "integers and booleans have no tangents",
                "convert the argument to a float, differentiate another one (argnums), or pass allow_int=True",
            )
        )


def _check_output(out: Any, holomorphic: bool, fun: Any) -> Any:
    aval = aval_of(out)
    if aval.shape != ():
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output of {name_of(fun)} had shape: {aval.shape}. "
            "Sum or average it, or use jacrev or jacfwd."
        )
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(f"grad with holomorphic=True requires outputs with complex dtype, but got {aval.dtype}.")
    elif dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise TypeError(
            f"grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {aval.dtype}. "
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of non-holomorphic functions "
            "involving complex outputs, use vjp directly."
        )
    elif not is_differentiable(aval.dtype):
        raise TypeError(
            f"grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {aval.dtype}. "
            "For differentiation of functions with integer outputs, use vjp directly."
        )
    return aval


def _like(wrapper: Any, fun: Any, transform: str) -> Any:
    wrapper.__name__ = name_of(fun)
    wrapper.__qualname__ = f"{transform}({name_of(fun)})"
    wrapper.__doc__ = getattr(fun, "__doc__", None)
    wrapper.__wrapped__ = fun
    return wrapper


from purax.transforms import fused  # noqa: E402  (plans are made of programs that are linearized with the traces above)
