# SPDX-License-Identifier: Apache-2.0
"""`sparsify`: run a function that was written for dense arrays on sparse ones.

An interpreter of primitives: each primitive that meets a sparse operand is handed to a rule for it, every other goes on to the trace
that was current. Loops and branches carry sparse arrays as what they are, pytrees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import errors, tree
from purax import numpy as pnp
from purax.control import branch, loop
from purax.control.custom_jvp import custom_jvp_call_p
from purax.control.custom_vjp import custom_vjp_call_p
from purax.core.aval import array_aval
from purax.core.ir import Var
from purax.core.primitive import registry
from purax.core.rules import RuleTable
from purax.core.trace import Trace, Tracer, aval_of, bind_in, current
from purax.experimental.sparse import arithmetic, bcoo_product, bcoo_shape
from purax.experimental.sparse.base import JAXSparse
from purax.experimental.sparse.bcoo import BCOO
from purax.experimental.sparse.bcsr import BCSR
from purax.experimental.sparse.matrices import COO, CSC, CSR

__all__ = [
    "SparseTracer", "SparsifyEnv", "SparsifyValue", "arrays_to_spvalues", "sparsify", "sparsify_raw", "spvalues_to_arrays", "todense",
]  # fmt: skip

_rules = RuleTable("sparse")


# --- the interpreter ----------------------------------------------------------------------------------------------------------


class SparseTracer(Tracer):
    """A value inside a sparsified function: to the function it looks dense."""

    __slots__ = ("value",)

    def __init__(self, trace: Any, value: Any) -> None:
        self._trace = trace
        self.value = value
        self.aval = array_aval(value.shape, value.dtype) if isinstance(value, JAXSparse) else aval_of(value)

    def concrete(self) -> Any:
        """The value, if it is dense and known."""
        if isinstance(self.value, JAXSparse):
            return None
        return self.value.concrete() if isinstance(self.value, Tracer) else self.value

    def origin(self) -> str:
        """Why there are no elements to see."""
        return "inside sparsify it stands for a sparse array"


class SparseTrace(Trace):
    """Hands primitives with sparse operands to their rules; `everything` wraps dense values as well."""

    __slots__ = ("everything",)
    kind = "sparsify"

    def __init__(self, parent: Any, name: str, everything: bool) -> None:
        super().__init__(parent, name, object())
        self.everything = everything

    def wrap(self, value: Any) -> Any:
        """A value as the function sees it."""
        return SparseTracer(self, value) if self.everything or isinstance(value, JAXSparse) else value

    def unwrap(self, x: Any) -> Any:
        """What a tracer of this trace stands for."""
        return x.value if type(x) is SparseTracer and x._trace is self else x

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Apply the rule in the parent trace."""
        if primitive in (custom_jvp_call_p, custom_vjp_call_p):  # the function may close over tracers of this trace
            return tuple(primitive.run(operands, params))
        values = [self.unwrap(x) for x in operands]
        token = current.set(self.parent)
        try:
            outs = _apply(primitive, values, params)
        finally:
            current.reset(token)
        return tuple([self.wrap(o) for o in outs])


def _apply(primitive: Any, values: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """Outputs of a primitive on sparse and dense values."""
    if not any(isinstance(v, JAXSparse) for v in values):
        return bind_in(current.get(), primitive, tuple(values), params)
    if primitive not in _rules:
        reason = " because it would result in dense output" if primitive.name in _DENSE else ""
        raise errors.MissingRuleError(
            f"sparse rule for {primitive.name} is not implemented{reason}."
            + ("\nFix: todense(x) before it, if that is what is meant." if reason else "")
        )
    out = _rules[primitive](*values, **params)
    return out if isinstance(out, (tuple, list)) else (out,)


def _run(jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    """Outputs of a program on sparse and dense values."""
    env: dict[Var, Any] = dict(zip(jaxpr.invars, values, strict=True))
    for eqn in jaxpr.eqns:
        operands = [env[a] if type(a) is Var else a.val for a in eqn.invars]
        env.update(zip(eqn.outvars, _apply(eqn.primitive, operands, eqn.params), strict=True))
    return [env[a] if type(a) is Var else a.val for a in jaxpr.outvars]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Make a function of dense arrays take sparse ones.

    Parameters
    ----------
    f : callable
        Written with `purax.numpy` and `purax.lax`. It sees values of the dense shapes; what it captures stays as it is.
    use_tracer : bool
        Show dense arguments to `f` as tracers as well.

    Returns
    -------
    callable
        Takes and returns pytrees of sparse and dense arrays. Operations whose results would be dense for sparse operands, such as
        `cos`, raise.

    Raises
    ------
    MissingRuleError
        A primitive has no rule for sparse operands.

    Examples
    --------
    >>> mat = BCOO.fromdense(pnp.array([[0, 2, 0], [1, 0, 3]]))
    >>> sparsify(lambda x, v: pnp.sin(x).T @ v)(mat, pnp.ones(2)).shape
    (3,)
    """

    @functools.wraps(f)
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs), is_leaf=_is_sparse)
        trace = SparseTrace(current.get(), getattr(f, "__name__", ""), use_tracer)
        given = [
            trace.wrap(x.to_bcoo() if isinstance(x, (COO, CSR, CSC)) else x if _is_sparse(x) else pnp.asarray(x))
            for x in leaves
        ]
        token = current.set(trace)
        try:
            args, kwargs = in_tree.unflatten(given)
            outs, out_tree = tree.flatten(f(*args, **kwargs))
        finally:
            current.reset(token)
        return out_tree.unflatten([trace.unwrap(o) for o in outs])

    return sparsified


def todense(arr: Any) -> Any:
    """The dense form of a sparse array, also inside `sparsify`; dense arrays come back as they are.

    Parameters
    ----------
    arr : sparse array, array or scalar

    Returns
    -------
    array
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    if not isinstance(arr, SparseTracer):
        return pnp.asarray(arr)
    value, trace = arr.value, arr._trace
    if not isinstance(value, JAXSparse):
        return arr
    token = current.set(trace.parent)
    try:
        dense = value.todense()
    finally:
        current.reset(token)
    return trace.wrap(dense)


# --- values by reference ------------------------------------------------------------------------------------------------------


class SparsifyValue(NamedTuple):
    """An array whose buffers are entries of a `SparsifyEnv`; two values may share their indices."""

    shape: tuple[int, ...]
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool | None = False
    unique_indices: bool | None = False

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def is_sparse(self) -> bool:
        """Whether there are indices."""
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        """Whether there are none."""
        return self.indices_ref is None


class SparsifyEnv:
    """Buffers that values refer to."""

    def __init__(self, bufs: Sequence[Any] = ()) -> None:
        self._buffers = list(bufs)

    def _push(self, arr: Any) -> int:
        self._buffers.append(pnp.asarray(arr))
        return len(self._buffers) - 1

    def get(self, ref: int | None) -> Any:
        """The buffer of a reference."""
        if ref is None:
            raise ValueError("the value has no such buffer")
        return self._buffers[ref]

    def dense(self, data: Any) -> SparsifyValue:
        """A value for a dense array."""
        return SparsifyValue(np.shape(data), self._push(data))

    def sparse(
        self, shape: Sequence[int], data: Any = None, indices: Any = None, indptr: Any = None, *, data_ref: int | None = None,
        indices_ref: int | None = None, indptr_ref: int | None = None, indices_sorted: bool = False, unique_indices: bool = False,
    ) -> SparsifyValue:  # fmt: skip
        """A value for a sparse array; each buffer is given, or is one that is here already."""
        refs = [
            self._push(x) if x is not None else ref
            for x, ref in ((data, data_ref), (indices, indices_ref), (indptr, indptr_ref))
        ]
        stored, places, ends = refs
        return SparsifyValue(
            tuple(shape), stored, places, ends, indices_sorted=indices_sorted, unique_indices=unique_indices
        )


def arrays_to_spvalues(spenv: SparsifyEnv, args: Any) -> Any:
    """Values for the sparse and dense arrays of the pytree `args`: a tree like it of SparsifyValues."""

    def one(x: Any) -> SparsifyValue:
        if isinstance(x, (BCOO, BCSR)):
            return spenv.sparse(
                x.shape, x.data, x.indices, x.indptr if isinstance(x, BCSR) else None,
                indices_sorted=x.indices_sorted, unique_indices=x.unique_indices,
            )  # fmt: skip
        return spenv.dense(x)

    return tree.map(one, args, is_leaf=_is_sparse)


def spvalues_to_arrays(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """Sparse and dense arrays for the values of the pytree `spvalues`; values that share indices give arrays that share them."""

    def one(value: SparsifyValue) -> Any:
        data = spenv.get(value.data_ref)
        if value.is_dense():
            return data
        known = {"indices_sorted": bool(value.indices_sorted), "unique_indices": bool(value.unique_indices)}
        if value.indptr_ref is not None:
            return BCSR((data, spenv.get(value.indices_ref), spenv.get(value.indptr_ref)), shape=value.shape, **known)
        return BCOO((data, spenv.get(value.indices_ref)), shape=value.shape, **known)

    return tree.map(one, spvalues, is_leaf=lambda x: isinstance(x, SparsifyValue))


def sparsify_raw(f: Callable[..., Any]) -> Callable[..., Any]:
    """As `sparsify`, for values by reference: `(env, *values) -> (values of the leaves of the output, its structure)`."""

    def raw(spenv: SparsifyEnv, *spvalues: Any, **params: Any) -> tuple[list[SparsifyValue], Any]:
        outs = sparsify(f)(*spvalues_to_arrays(spenv, spvalues), **params)
        leaves, out_tree = tree.flatten(outs, is_leaf=_is_sparse)
        return arrays_to_spvalues(spenv, leaves), out_tree

    return raw


# --- rules: elementwise -------------------------------------------------------------------------------------------------------

# f(a + b) = f(a) + f(b)
_LINEAR = ("conj", "convert_element_type", "copy", "imag", "neg", "real", "reduce_precision", "stop_gradient")
# f(0) = 0
_ZERO_KEEPING = (
    "abs", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cbrt", "ceil", "erf", "erf_inv", "expm1", "floor", "log1p", "round", "sign",
    "sin", "sinh", "sqrt", "square", "tan", "tanh",
)  # fmt: skip
# those of zero are not zero
_DENSE = frozenset({
    "acos", "acosh", "bessel_i0e", "cos", "cosh", "digamma", "erfc", "exp", "exp2", "is_finite", "lgamma", "log", "logistic", "not",
    "rsqrt",
})  # fmt: skip


def _unary(name: str, linear: bool) -> None:
    primitive = registry[name]

    def rule(x: Any, **params: Any) -> Any:
        if isinstance(x, BCSR):
            x = x if linear or x.unique_indices else x.sum_duplicates(nse=x.nse, remove_zeros=False)
            return x.on_values(lambda v: primitive.bind1(v, **params))
        return (arithmetic.on_values if linear else arithmetic.on_merged)(x, lambda v: primitive.bind1(v, **params))

    _rules.register(primitive)(rule)


for _name in _LINEAR:
    _unary(_name, linear=True)
for _name in _ZERO_KEEPING:
    _unary(_name, linear=False)


@_rules.register(registry["integer_pow"])
def _integer_pow(x: Any, *, y: int) -> Any:
    if y <= 0:
        raise errors.MissingRuleError(
            f"sparse rule for integer_pow with non-positive exponent y={y}: the result would be dense"
        )
    return arithmetic.on_merged(_bcoo(x), lambda v: registry["integer_pow"].bind1(v, y=y))


def _bcoo(x: Any) -> Any:
    return x.to_bcoo() if isinstance(x, BCSR) else x


def _converted(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for BCOO and dense operands, on other formats as well."""

    def on_any(*values: Any, **params: Any) -> Any:
        return rule(*[_bcoo(v) for v in values], **params)

    return on_any


def _add(x: Any, y: Any) -> Any:
    return arithmetic.add(x, y) if _is_sparse(x) else arithmetic.add(y, x)


def _multiply(x: Any, y: Any, **params: Any) -> Any:
    return arithmetic.multiply(x, y) if _is_sparse(x) else arithmetic.multiply(y, x)


_rules.register(registry["add"])(_converted(_add))
_rules.register(registry["sub"])(_converted(lambda x, y: _add(x, -y)))
_rules.register(registry["mul"])(_converted(_multiply))
_rules.register(registry["strong_mul"])(_converted(_multiply))


@_rules.register(registry["div"])
@_converted
def _div(x: Any, y: Any) -> Any:
    if not _is_sparse(x):
        raise errors.MissingRuleError("sparse rule for div is not implemented because it would result in dense output.")
    return arithmetic.divide(x, y)


# --- rules: products and shapes -----------------------------------------------------------------------------------------------

_rules.register(registry["dot_general"])(_converted(bcoo_product.bcoo_dot_general))
_rules.register(registry["conv_general_dilated"])(
    _converted(lambda x, y, *, dimension_numbers, **params: bcoo_product.bcoo_conv_general_dilated(x, y, **params))
)
_rules.register(registry["transpose"])(_converted(bcoo_shape.bcoo_transpose))
_rules.register(registry["slice"])(_converted(bcoo_shape.bcoo_slice))
_rules.register(registry["squeeze"])(_converted(bcoo_shape.bcoo_squeeze))
_rules.register(registry["rev"])(_converted(bcoo_shape.bcoo_rev))
_rules.register(registry["broadcast_in_dim"])(_converted(bcoo_shape.bcoo_broadcast_in_dim))
_rules.register(registry["dynamic_slice"])(
    _converted(lambda x, *starts, slice_sizes: bcoo_shape.bcoo_dynamic_slice(x, starts, slice_sizes))
)


@_rules.register(registry["reshape"])
@_converted
def _reshape(x: Any, *, new_sizes: Sequence[int]) -> Any:
    ones = [n for n in new_sizes if n != 1]
    if [n for n in x.shape if n != 1] == ones and len(new_sizes) > x.ndim:  # new axes of size 1 need no layout to fit
        places, rest = [], iter(enumerate(new_sizes))
        for n in x.shape:
            places.append(next(i for i, size in rest if size == n))
        return bcoo_shape.bcoo_broadcast_in_dim(x, shape=new_sizes, broadcast_dimensions=places)
    if [n for n in x.shape if n != 1] == ones and len(new_sizes) < x.ndim:
        gone, sizes = [], list(new_sizes)
        for axis, n in enumerate(x.shape):
            if sizes and sizes[0] == n:
                sizes.pop(0)
            else:
                gone.append(axis)
        return bcoo_shape.bcoo_squeeze(x, dimensions=gone)
    return bcoo_shape.bcoo_reshape(x, new_sizes=new_sizes)


@_rules.register(registry["reduce_sum"])
@_converted
def _reduce_sum(x: Any, *, axes: Sequence[int]) -> Any:
    out = bcoo_shape.bcoo_reduce_sum(x, axes=axes)
    return out if out.ndim else out.todense()


@_rules.register(registry["concatenate"])
def _concatenate(*xs: Any, dimension: int) -> Any:
    parts = [_bcoo(x) for x in xs]
    if not all(_is_sparse(x) for x in parts):
        raise errors.MissingRuleError("sparse rule for concatenate of sparse and dense arrays is not implemented.")
    least = min(x.n_batch for x in parts)
    parts = [x.update_layout(n_batch=least) for x in parts]
    out = bcoo_shape.bcoo_concatenate(parts, dimension=dimension)
    return BCSR.from_bcoo(out) if all(isinstance(x, BCSR) for x in xs) else out


# --- rules: programs within programs ------------------------------------------------------------------------------------------


def _call(*values: Any, jaxpr: Any, **params: Any) -> Any:
    return _run(jaxpr, values)


for _primitive in (registry["jit"], registry["checkpoint"], custom_jvp_call_p, custom_vjp_call_p):
    _rules.register(_primitive)(_call)


@_rules.register(registry["while"])
def _while(
    *values: Any, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int, max_steps: int | None
) -> Any:
    first, second = values[:cond_nconsts], values[cond_nconsts : cond_nconsts + body_nconsts]
    return loop.while_loop(
        lambda carry: _run(cond_jaxpr, [*first, *carry])[0],
        lambda carry: tuple(_run(body_jaxpr, [*second, *carry])),
        tuple([_bcoo(v) for v in values[cond_nconsts + body_nconsts :]]),  # a body may return this format only
        max_steps=max_steps,
    )


@_rules.register(registry["scan"])
def _scan(*values: Any, jaxpr: Any, length: int, reverse: bool, unroll: int, consts: int, carry: int) -> Any:
    fixed, start, rows = values[:consts], values[consts : consts + carry], values[consts + carry :]
    if any(_is_sparse(x) for x in rows):
        raise errors.MissingRuleError("sparse rule for scan over a sparse array is not implemented.")

    def body(state: Any, x: Any) -> tuple[Any, Any]:
        outs = _run(jaxpr, [*fixed, *state, *x])
        return tuple(outs[:carry]), tuple(outs[carry:])

    state, ys = loop.scan(
        body, tuple([_bcoo(v) for v in start]), tuple(rows), length=length, reverse=reverse, unroll=unroll
    )
    return *state, *ys


@_rules.register(registry["cond"])
def _cond(index: Any, *values: Any, branches: Sequence[Any], **params: Any) -> Any:
    taken = [lambda *xs, jaxpr=jaxpr: tuple(_run(jaxpr, xs)) for jaxpr in branches]
    try:
        return branch.switch(index, taken, *values)
    except errors.BranchTypeError as error:
        raise errors.BranchTypeError(
            f"sparsified true_fun output must have same type structure as sparsified false_fun output: {error}"
        ) from error
