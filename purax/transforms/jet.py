# SPDX-License-Identifier: Apache-2.0
"""Taylor mode: truncated power series through a program, at the cost of a polynomial in the order.

A value is a series `x(t) = x0 + x1 t + x2 t**2 + ...` whose coefficients are computed when they are asked for. So a series may be
defined by itself, and every primitive has a rule already, its jvp rule: the derivative of `y = f(x)` is `y' = f'(x) x'`, and
coefficient `n` of `y` is coefficient `n - 1` of `y'` divided by `n`, which needs coefficients below `n` of `y` only. The jvp rule
is run once, on series. Where it binds the same operation on the same operands again, it is given the series under way: that is
how `exp' = exp`, or `sin' = cos` and `cos' = -sin`, become the recurrences of the textbooks. What is linear or bilinear is applied
to coefficients directly, for its jvp rule would bind it anew at each order.

References
----------
A. Griewank and A. Walther, "Evaluating Derivatives", chapter 13; M. D. McIlroy, "Power series, power serious", Journal of
Functional Programming 9 (1999).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from purax import tree
from purax.core.hooks import hooks
from purax.core.rules import RuleTable
from purax.core.trace import Trace, Tracer, aval_of, bind_in, current
from purax.primitives import cast, elementwise, shape, special, transcendental
from purax.primitives.base import LinearUnary, add_tangents, instantiate, is_differentiable, zeros_of
from purax.transforms.flat import argument_names, check_arrays, flat_function

__all__ = ["JetTrace", "fact", "jet", "jet2", "jet_flat", "listed", "taylor_rules"]

taylor_rules = RuleTable("Taylor mode")  # (trace, operands, params) -> outputs; for primitives that hold programs

# Operations that are linear in these operands together, None: in all; others must not depend on t.
_LINEAR: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("add", "sub", "complex", "concatenate", "optimization_barrier"), None),
    **dict.fromkeys(("pad", "dynamic_update_slice"), (0, 1)),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_sub"), (0, 2)),
    **dict.fromkeys(
        (
            "neg", "real", "imag", "conj", "convert_element_type", "reduce_sum", "cumsum", "split", "gather", "fft", "psum", "pvary",
            "ppermute", "all_gather", "psum_scatter", "all_to_all", "sharding_constraint", "reduce_window_sum",
        ),
        (0,),
    ),
    "triangular_solve": (1,),
}  # fmt: skip
_BILINEAR = frozenset({"mul", "strong_mul", "dot_general", "conv_general_dilated"})


class Series:
    """Coefficients, computed in order when asked for; None is zero.

    Parameters
    ----------
    trace : JetTrace
    first : array
        Coefficient 0.
    rule : callable
        `rule(n)` gives coefficient `n`; it runs outside the trace and may ask for those below `n`.
    """

    __slots__ = ("known", "rule", "trace")

    def __init__(self, trace: Any, first: Any, rule: Callable[[int], Any]) -> None:
        self.trace, self.known, self.rule = trace, [first], rule

    def __getitem__(self, n: int) -> Any:
        while len(self.known) <= n:
            token = current.set(self.trace.parent)
            try:
                self.known.append(self.rule(len(self.known)))
            finally:
                current.reset(token)
        return self.known[n]


class JetTracer(Tracer):
    """A value that is a series."""

    __slots__ = ("series",)
    has_tangent = True

    def __init__(self, trace: Any, series: Series) -> None:
        self._trace = trace
        self.aval = aval_of(series.known[0])
        self.series = series

    def concrete(self) -> Any:
        """The coefficient 0, if it is known."""
        first = self.series.known[0]
        return first.concrete() if isinstance(first, Tracer) else first


class JetTrace(Trace):
    """Computes with series up to an order."""

    __slots__ = ("done", "order")
    kind = "jet"

    def __init__(self, parent: Any, order: int, name: str = "") -> None:
        super().__init__(parent, name)
        self.order = order
        self.done: dict[Any, Any] = {}  # outputs of operations, by operation and identity of operands; and the operands

    def process(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Give the outputs as series that know how to go on."""
        if not any(self.owns(x) for x in operands):
            token = current.set(self.parent)
            try:
                return bind_in(self.parent, primitive, operands, params)
            finally:
                current.reset(token)
        if primitive in taylor_rules:
            return tuple(taylor_rules[primitive](self, operands, params))
        if primitive.effects(params):
            return self._apply(primitive, operands, params)
        key = (primitive, tuple(map(id, operands)), tuple(params.items()))
        found = self.done.get(key)
        if found is None:
            found = self.done[key] = (operands, self._apply(primitive, operands, params))
        return found[1]

    def owns(self, x: Any) -> bool:
        """Whether `x` is a series of this trace."""
        return type(x) is JetTracer and x._trace is self

    def term(self, x: Any, n: int) -> Any:
        """Coefficient `n` of a series or of a constant."""
        if self.owns(x):
            return x.series[n]
        return x if n == 0 else None

    def made(self, first: Any, rule: Callable[[int], Any]) -> Any:
        """A value of the trace; where derivatives do not exist, the constant."""
        return JetTracer(self, Series(self, first, rule)) if is_differentiable(aval_of(first).dtype) else first

    def _apply(self, primitive: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        token = current.set(self.parent)
        try:
            firsts = bind_in(self.parent, primitive, tuple([self.term(x, 0) for x in operands]), params)
        finally:
            current.reset(token)
        name = primitive.name
        positions = _linear_positions(primitive, len(operands), params)
        if all(i in positions for i, x in enumerate(operands) if self.owns(x)):
            return self._linear(primitive, operands, params, firsts, positions)
        if name in _BILINEAR:
            return (self.made(firsts[0], lambda n: self._convolved(primitive, operands, params, n)),)
        if name == "div":
            return (self._quotient(firsts[0], *operands),)
        return self._derived(primitive, operands, params, firsts)

    def _linear(self, primitive: Any, operands: Any, params: Any, firsts: Any, positions: Any) -> tuple[Any, ...]:
        results: dict[int, Any] = {}

        def terms(n: int) -> Any:
            if n not in results:
                given = [self.term(x, n) if i in positions else x for i, x in enumerate(operands)]
                if all(given[i] is None for i in positions):
                    results[n] = [None] * len(firsts)
                else:
                    full = [
                        zeros_of(aval_of(x)) if i in positions and g is None else g
                        for i, (g, x) in enumerate(zip(given, operands, strict=True))
                    ]
                    results[n] = bind_in(current.get(), primitive, tuple(full), params)
            return results[n]

        def rule(i: int, n: int) -> Any:
            return terms(n)[i]

        return tuple([self.made(first, functools.partial(rule, i)) for i, first in enumerate(firsts)])

    def _convolved(self, primitive: Any, operands: Any, params: Any, n: int) -> Any:
        """The sum of `x[i] y[n - i]`."""
        total = None
        for i in range(n + 1):
            x, y = self.term(operands[0], i), self.term(operands[1], n - i)
            if x is not None and y is not None:
                total = add_tangents(total, primitive.bind1(x, y, **params))
        return total

    def _quotient(self, first: Any, x: Any, y: Any) -> Any:
        """From `q y = x`: `q[n] = (x[n] - y[1] q[n - 1] - ... - y[n] q[0]) / y[0]`."""

        def rule(n: int) -> Any:
            total = self.term(x, n)
            for i in range(1, n + 1):
                slope, before = self.term(y, i), quotient.series[n - i]
                if slope is not None and before is not None:
                    total = add_tangents(total, elementwise.neg(elementwise.mul(slope, before)))
            return None if total is None else elementwise.div(total, self.term(y, 0))

        quotient = self.made(first, rule)
        return quotient

    def _derived(self, primitive: Any, operands: Any, params: Any, firsts: Any) -> tuple[Any, ...]:
        """Integrals of what the jvp rule gives for the rates of the operands."""
        rates: list[Any] = []

        def rule(i: int, n: int) -> Any:
            if not rates:
                tangents = tuple([self._rate(x) if self.owns(x) else None for x in operands])
                token = current.set(self)
                try:
                    rates[:] = primitive.jvp(operands, tangents, **params)[1]
                finally:
                    current.reset(token)
            return _scaled(self.term(rates[i], n - 1), 1 / n)

        return tuple([self.made(first, functools.partial(rule, i)) for i, first in enumerate(firsts)])

    def _rate(self, x: Any) -> Any:
        """The derivative of a series by t."""
        first = instantiate(x.series[1], x)
        return JetTracer(self, Series(self, first, lambda n: _scaled(x.series[n + 1], n + 1)))


def _linear_positions(primitive: Any, count: int, params: dict[str, Any]) -> Any:
    if primitive.name == "select_n":
        return range(1, count)
    if params.get("fill_value"):  # a gather that fills with something else than zero
        return ()
    if isinstance(primitive, LinearUnary):
        return (0,)
    positions = _LINEAR.get(primitive.name, ())
    return range(count) if positions is None else positions


def _scaled(x: Any, factor: float) -> Any:
    """`factor * x` in the dtype of `x`."""
    if x is None or factor == 1:
        return x
    return elementwise.mul(x, shape.full_like_aval(aval_of(x).update(shape=()), factor))


def listed(terms: Sequence[Any], n: int) -> Any:
    """Coefficient `n` of those given from the first on; None is zero.

    Returns
    -------
    array or None
    """
    return terms[n - 1] if n <= len(terms) else None


def jet_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], terms: Sequence[Sequence[Any] | None], order: int
) -> tuple[list[Any], list[list[Any] | None]]:
    """Outputs of a function of flat values and their coefficients 1 to `order` (not scaled by factorials); None is zero.

    Parameters
    ----------
    fun : callable
    primals : sequence of arrays
    terms : sequence of sequences of arrays, or None
    order : int

    Returns
    -------
    (list of arrays, list of lists of arrays or None)
    """
    trace = JetTrace(current.get(), order, getattr(fun, "__name__", ""))
    inputs = [
        p if given is None else trace.made(p, functools.partial(listed, given))
        for p, given in zip(primals, terms, strict=True)
    ]
    token = current.set(trace)
    try:
        outputs = fun(*inputs)
    finally:
        current.reset(token)
    outs = [trace.term(x, 0) for x in outputs]
    found = [[trace.term(x, n) for n in range(1, order + 1)] if trace.owns(x) else None for x in outputs]
    return outs, [None if row is None or all(t is None for t in row) else row for row in found]


def jet(
    fun: Callable[..., Any], primals: Any, series: Any, factorial_scaled: bool = True, **options: Any
) -> tuple[Any, Any]:
    """Value and higher derivatives of `fun` along a curve: Taylor mode.

    Parameters
    ----------
    fun : callable
        Function of arrays or pytrees of arrays.
    primals : tuple or list
        Positional arguments: where the curve is at 0.
    series : tuple or list
        Per argument, the derivatives 1 to `K` of the curve there: a sequence of `K` values with the structure, shapes and dtypes
        of the argument. Terms of arguments that are no floats are ignored.
    factorial_scaled : bool
        Terms are derivatives; if False, they are coefficients of the power series, `n!` times smaller.
    options
        Of older versions; without effect.

    Returns
    -------
    primals_out : pytree
        `fun(*primals)`.
    series_out : pytree
        Like the output, with a list of its derivatives 1 to `K` along the curve in place of each leaf.

    Raises
    ------
    ValueError
        Arguments have different numbers of terms, or terms differ from their argument in structure or shape.
    """
    del options  # of older versions
    lengths = {len(terms) for terms in series}
    if len(lengths) != 1 or len(series) != len(primals):
        raise ValueError(
            f"jet: each of the {len(primals)} arguments needs the same number of terms, got inconsistent lengths "
            f"{[len(terms) for terms in series]}"
        )
    order = lengths.pop()
    leaves, treedef = tree.flatten(tuple(primals))
    check_arrays("jet", leaves, lambda: argument_names(fun, primals))
    factors = [math.factorial(n) if factorial_scaled else 1 for n in range(1, order + 1)]
    rows = [tree.flatten(tuple([terms[n] for terms in series])) for n in range(order)]
    for n, (_, found) in enumerate(rows):
        if found != treedef:
            raise ValueError(f"jet: terms {n + 1} have the structure {found}, the arguments have {treedef}")
    avals = [aval_of(x) for x in leaves]
    columns = [
        [_scaled(_checked_term(row[i], a, n + 1), 1 / factors[n]) for n, (row, _) in enumerate(rows)]
        if is_differentiable(a.dtype)
        else None
        for i, a in enumerate(avals)
    ]
    flat, store = flat_function(fun, treedef)
    outs, terms_out = jet_flat(flat, [hooks.as_array(x) for x in leaves], columns, order)
    full = [
        [_scaled(zeros_of(aval_of(o)) if row is None else instantiate(row[n], o), f) for n, f in enumerate(factors)]
        for o, row in zip(outs, terms_out, strict=True)
    ]
    return store.out_tree.unflatten(outs), store.out_tree.unflatten(full)


def _checked_term(term: Any, aval: Any, n: int) -> Any:
    given = aval_of(term)
    if given.shape != aval.shape:
        raise ValueError(f"jet: term {n} of an argument of shape {aval.shape} has shape {given.shape}")
    return cast.as_type(hooks.as_array(term), aval)


jet2 = functools.partial(jet, factorial_scaled=False)


def fact(n: Any) -> Any:
    """The factorial of `n`, a float."""
    return transcendental.exp(special.lgamma(elementwise.add(hooks.as_array(n), 1.0)))
