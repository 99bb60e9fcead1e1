# SPDX-License-Identifier: Apache-2.0
"""The user's loops: `scan`, `while_loop`, `fori_loop`, `map`. The primitives are in `scan.py` and `while_loop.py`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purax import config, dtypes, errors, tree
from purax.control import ref_scope, refs
from purax.control.check import check
from purax.control.program import build, cast_weak, holds, merge, partition, permuted, stage_touching, varying_over
from purax.control.rewind import counted
from purax.control.scan import scan_p
from purax.control.while_loop import while_p
from purax.core.dims import Dim, as_size
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Jaxpr, Var, intern
from purax.core.passes import silent
from purax.core.trace import Tracer, aval_of
from purax.primitives import bits, cast, comparison, elementwise, shape
from purax.primitives.base import zeros_of
from purax.primitives.resharding import reshard_to
from purax.transforms.flat import check_arrays, name_of
from purax.transforms.vmap import vmap

__all__ = ["fori_loop", "map", "scan", "while_loop"]


def scan(
    f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    unroll: int | bool = 1, _split_transpose: bool = False,
) -> Any:  # fmt: skip
    """Loop with a carry: `carry, y = f(carry, x)` for each slice `x` of `xs`.

    Parameters
    ----------
    f : callable
        Returns `(carry, y)`; the carry keeps its structure, shapes and dtypes.
    init : pytree of arrays
    xs : pytree of arrays [length, ...], optional
    length : int, optional
        Needed when `xs` is None.
    reverse : bool
        Go from the last slice to the first.
    unroll : int or bool
        Iterations per step of the compiled loop; True, or 0, unrolls all.
    _split_transpose : bool
        Without effect.

    Returns
    -------
    carry : pytree like `init`
    ys : pytree of arrays [length, ...]

    Raises
    ------
    CarryTypeError
        The carry changes its type; the message shows the difference leaf by leaf.
    TypeError
        `f` cannot be called.
    ValueError
        Sizes of `xs` differ, or there is neither `xs` nor `length`.

    Examples
    --------
    >>> carry, ys = purax.lax.scan(lambda c, x: (c + x, c), 0, pnp.array([1, 2, 3]))
    >>> carry.item(), ys.tolist()
    (6, [0, 1, 3])
    """
    del _split_transpose
    if not callable(f):
        raise TypeError(f"lax.scan: f argument should be a callable, got {f!r}.")
    xs_flat, xs_tree = tree.flatten(xs)
    if any(refs.is_ref(x) for x in xs_flat):
        return _scan_over_refs(f, init, xs_flat, xs_tree, length=length, reverse=reverse, unroll=unroll)
    init_flat = tree.leaves(init)
    check_arrays("scan", init_flat, lambda: ["init" + tree.keystr(p) for p, _ in tree.leaves_with_path(init)])
    check_arrays("scan", xs_flat, lambda: ["xs" + tree.keystr(p) for p, _ in tree.leaves_with_path(xs)])
    size = _scan_length(xs_flat, length, xs)
    steps = _unroll(unroll, size)
    if config.current().disable_jit and not any(isinstance(x, Tracer) for x in (*xs_flat, *init_flat)):
        return _python_scan(f, init, xs_flat, xs_tree, size, reverse)
    x_avals = [row_aval("scan", x) for x in xs_flat]

    init_flat, init_tree = tree.flatten(init)
    in_tree = tree.treedef_tuple((init_tree, xs_tree))
    jaxpr, consts, out_tree, init_flat, cells = _stage_body(f, in_tree, init_tree, init_flat, x_avals)
    n_carry = len(init_flat)
    if len(cells):  # what references hold comes and goes with the carry
        order, outputs = (
            _cells_after(len(consts) + n_carry, jaxpr.invars, cells),
            _cells_after(n_carry, jaxpr.outvars, cells),
        )
        jaxpr, n_carry = permuted(jaxpr, order, outputs), n_carry + len(cells)
    kept, rows, fixed = _unchanged(jaxpr, len(consts), n_carry)
    # Outputs that are slices of `xs` as they came are `xs`.
    slices = {v: x for v, x in zip(jaxpr.invars[len(jaxpr.invars) - len(xs_flat) :], xs_flat, strict=True)}
    same = [type(v) is Var and v in slices for v in jaxpr.outvars[n_carry:]]
    rows = [i for i in rows if i < n_carry or not same[i - n_carry]]
    program = permuted(jaxpr, kept, rows)

    def run(held: Sequence[Any]) -> list[Any]:
        changing, unchanged = partition(fixed, [*init_flat, *held])
        outs = scan_p.bind(
            *consts, *unchanged, *changing, *xs_flat, jaxpr=program, length=size, reverse=bool(reverse), unroll=steps,
            consts=len(consts) + len(unchanged), carry=len(changing),
        )  # fmt: skip
        final = merge(fixed, outs[: len(changing)], [hooks.as_array(x) for x in unchanged])
        forwarded = [hooks.as_array(slices[v]) for v, s in zip(jaxpr.outvars[n_carry:], same, strict=True) if s]
        ys = merge(same, outs[len(changing) :], forwarded)
        return [*final[: len(init_flat)], *ys, *final[len(init_flat) :]]

    return out_tree.unflatten(cells.through((program,), run))


def _cells_after(place: int, values: Sequence[Any], cells: ref_scope.Cells) -> list[int]:
    """The order of inputs or outputs with the last ones, those of references, after the first `place` of them."""
    end = len(values) - len(cells)
    return [*range(place), *range(end, len(values)), *range(place, end)]


def _scan_over_refs(f: Any, init: Any, xs_flat: list[Any], xs_tree: Any, **options: Any) -> Any:
    """A scan whose rows come from references: each step has references to its rows, and what they hold then goes back."""
    chosen = [i for i, x in enumerate(xs_flat) if refs.is_ref(x)]

    def body(carry: Any, rows: list[Any]) -> Any:
        rows = [refs.new_ref(x) if i in chosen else x for i, x in enumerate(rows)]
        carry, y = f(carry, xs_tree.unflatten(rows))
        return carry, (y, [rows[i][...] for i in chosen])

    rows = [x[...] if i in chosen else x for i, x in enumerate(xs_flat)]
    carry, (ys, changed) = scan(_renamed(body, f), init, rows, **options)
    for i, value in zip(chosen, changed, strict=True):
        xs_flat[i][...] = value
    return carry, ys


def _unchanged(jaxpr: Jaxpr, consts: int, carry: int) -> tuple[list[int], list[int], list[bool]]:
    """How to make constants of carries that the body returns as they came: order of inputs, outputs left, which carries."""
    fixed = [jaxpr.outvars[i] is jaxpr.invars[consts + i] for i in range(carry)]
    changing, unchanged = partition(fixed, range(consts, consts + carry))
    inputs = [*range(consts), *unchanged, *changing, *range(consts + carry, len(jaxpr.invars))]
    outputs = [i for i in range(len(jaxpr.outvars)) if i >= carry or not fixed[i]]
    return inputs, outputs, fixed


def _unroll(unroll: Any, size: int) -> int:
    if isinstance(unroll, bool):
        return max(size, 1) if unroll else 1
    _known("unroll", unroll)
    try:
        steps = unroll.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"scan: unroll must be an int or a bool, got {unroll!r}") from None
    if steps < 0:
        raise ValueError(f"scan: unroll must be a `bool` or a positive `int`, got {unroll}")
    return max(size, 1) if steps == 0 else steps


def _known(what: str, value: Any) -> None:
    if isinstance(value, Tracer) and value.concrete() is None:
        raise errors.ConcretizationTypeError(
            f"The `{what}` argument to `scan` expects a concrete `int` value, got {value!r}: mark it static (static_argnums)."
        )


def _scan_length(xs_flat: Sequence[Any], length: Any, xs: Any, what: str = "scan") -> int:
    names = ["xs" + tree.keystr(p) for p, _ in tree.leaves_with_path(xs)]
    sizes = []
    for name, x in zip(names, xs_flat, strict=True):
        aval = aval_of(x)
        if aval.ndim == 0:
            raise ValueError(f"{what} got value with no leading axis to scan over: {name} has shape ().")
        sizes.append(aval.shape[0])
    if length is not None:
        _known("length", length)
        try:
            length = as_size(length)
        except (AttributeError, TypeError):
            raise TypeError(f"scan: length must be an int, got {length!r}") from None
        if length < 0:
            raise ValueError(f"scan: length must not be negative, got {length}")
        if any(s != length for s in sizes):
            raise ValueError(f"scan got `length` argument of {length} which disagrees with leading axis sizes {sizes}.")
        return length
    if not sizes:
        missing = " and `length` not provided" if what == "scan" else ""
        raise ValueError(f"{what} got no values to scan over{missing}.")
    if len(set(sizes)) > 1:
        rows = ", ".join(f"{n}: {s}" for n, s in zip(names, sizes, strict=True))
        raise ValueError(f"{what} got values with different leading axis sizes: {rows}.")
    return sizes[0]


def _stage_body(
    f: Callable[..., Any], in_tree: Any, init_tree: Any, init_flat: list[Any], x_avals: Sequence[Any]
) -> tuple[Jaxpr, list[Any], Any, list[Any], ref_scope.Cells]:
    """Trace the body until the carry types are a fixed point: weakly typed carries take the type the body gives them."""
    name = name_of(f)
    for _ in range(3 + len(init_flat)):
        carry_avals = [aval_of(x) for x in init_flat]
        jaxpr, consts, out_tree, cells = stage_touching(f, in_tree, [*carry_avals, *x_avals], name, "scan")
        _check_pair(f, out_tree)
        carry_tree, _ = tree.treedef_children(out_tree)
        if carry_tree != init_tree:
            raise errors.CarryTypeError(
                errors.explain(
                    f"scan body function carry input and carry output must have the same pytree structure, but they differ: "
                    f"the carry going in is {init_tree}, the carry coming out of {name} is {carry_tree}",
                    "the carry of one step is the carry of the next",
                    "return the carry with the structure of `init`",
                )
            )
        outs = jaxpr.out_avals[: len(init_flat)]
        promoted = _promote_carry(init_flat, carry_avals, outs)
        widened = cells.widened(_cell_avals(jaxpr, cells))
        if promoted is None and not widened:
            break
        init_flat = init_flat if promoted is None else promoted
    check_carry("scan", name, init_tree, carry_avals, outs)
    wanted = [*carry_avals, *jaxpr.out_avals[len(init_flat) :]]
    if list(jaxpr.out_avals) != wanted:
        inner = jaxpr
        jaxpr = build(lambda *xs: cast_weak(eval_jaxpr(inner, (), *xs), wanted), inner.in_avals, name)
    return intern(jaxpr), consts, out_tree, init_flat, cells


def row_aval(what: str, x: Any) -> Any:
    """The type of one row of `x`.

    Raises
    ------
    ShardingTypeError
        The rows lie on different devices.
    """
    aval = aval_of(x)
    if aval.spread is not None and aval.spread.parts[0]:
        raise errors.ShardingTypeError(
            f"{what} goes along axis 0 of {aval.str_short()}, which is cut along mesh axes; `reshard` it first"
        )
    return aval.without_axis(0)


def _cell_avals(jaxpr: Jaxpr, cells: ref_scope.Cells) -> list[Any]:
    return list(jaxpr.out_avals[len(jaxpr.outvars) - len(cells) :])


def _check_pair(f: Any, out_tree: Any) -> None:
    children = tree.treedef_children(out_tree)
    if len(children) != 2 or out_tree != tree.treedef_tuple(children):
        raise TypeError(
            f"scan body output must be a pair (carry, y), but {name_of(f)} returned {out_tree} with {out_tree.num_leaves} leaves."
        )


def _promote_carry(init: Sequence[Any], given: Sequence[Any], outs: Sequence[Any]) -> list[Any] | None:
    """Initial values with weak types and named axes raised to what the body returns; None when nothing is to be changed."""
    changed = False
    out = []
    for x, a, b in zip(init, given, outs, strict=True):
        if a.weak_type and a.shape == b.shape and (a.dtype != b.dtype or not b.weak_type):
            dtype = dtypes.promote_types(a.dtype, b.dtype) if a.dtype == b.dtype else b.dtype
            if a.dtype != b.dtype and not holds(a.dtype, b.dtype):
                out.append(x)
                continue
            x = cast.convert_element_type_p.bind1(x, new_dtype=dtype, weak_type=b.weak_type)
            changed = True
        if not b.varying <= a.varying:
            x = varying_over(x, b.varying - a.varying)
            changed = True
        if a.spread is None and b.spread is not None:
            x = reshard_to(x, b.spread)
            changed = True
        out.append(x)
    return out if changed else None


def check_carry(what: str, name: str, carry_tree: Any, given: Sequence[Any], outs: Sequence[Any]) -> None:
    """Raise CarryTypeError listing every leaf of the carry whose type the body changes, with the cast that mends it."""
    wrong = []
    paths = [tree.keystr(p) for p in tree.paths(carry_tree)]
    for path, a, b in zip(paths, given, outs, strict=True):
        if a.shape != b.shape:
            wrong.append(
                f"  * carry{path} goes in as {a.str_short()} and comes out as {b.str_short()}: the shapes differ"
            )
        elif a.dtype != b.dtype and not (b.weak_type and holds(b.dtype, a.dtype)):
            wrong.append(
                f"  * carry{path} goes in as {a.str_short()} and comes out as {b.str_short()}: the dtypes differ; "
                f"return it .astype({a.dtype.name}), or start from init{path}.astype({b.dtype.name})"
            )
        elif a.spread is not b.spread and b.spread is not None:
            wrong.append(
                f"  * carry{path} goes in as {a.str_short()} and comes out as {b.str_short()}: they lie differently on the mesh; "
                "`reshard` it"
            )
    if wrong:
        raise errors.CarryTypeError(
            errors.explain(
                f"{what} body function carry input and carry output must have equal types, but the carry of {name} differs:\n"
                + "\n".join(wrong),
                "the carry of one step is the carry of the next, in one compiled loop",
                "make the types agree as shown",
            )
        )


def _python_scan(f: Any, carry: Any, xs_flat: Sequence[Any], xs_tree: Any, size: int, reverse: bool) -> Any:
    if size == 0:
        raise ValueError("zero-length scan is not supported in disable_jit() mode because the output type is unknown.")
    rows: list[Any] = [None] * size
    for i in reversed(range(size)) if reverse else range(size):
        carry, rows[i] = f(carry, xs_tree.unflatten([x[i] for x in xs_flat]))
    return carry, tree.map(lambda *ys: hooks.numpy.stack(ys), *rows)


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any, *, max_steps: int | None = None,
    truncate: bool = False,
) -> Any:  # fmt: skip
    """Repeat `value = body_fun(value)` while `cond_fun(value)`.

    Parameters
    ----------
    cond_fun : callable
        Returns a scalar bool.
    body_fun : callable
        Keeps structure, shapes and dtypes of the value.
    init_val : pytree of arrays
    max_steps : int, optional
        A bound on the number of steps: where the condition still holds after so many, a check fails. With it the loop can be differentiated in reverse mode: the steps are computed
        again from values kept at a few of them. With `L` the least number such that `16**L >= max_steps`, memory is that of
        at most `16 * L` copies of the value, and time that of at most `1 + L` runs of the loop and of one derivative of each
        step that is done.
    truncate : bool
        Stop after `max_steps` steps, and say nothing.

    Returns
    -------
    pytree like `init_val`

    Raises
    ------
    CarryTypeError
        The body changes the type of the value.
    ReverseModeError
        Reverse mode without `max_steps`.
    FailedCheckError
        The condition holds after `max_steps` steps (see `purax.check`).
    TypeError
        A function cannot be called.

    References
    ----------
    A. Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic differentiation",
    Optimization Methods and Software 1 (1992).
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    limit = None if max_steps is None else _checked_limit("while_loop", max_steps)
    return _while_loop(cond_fun, body_fun, init_val, limit, cut=limit is not None, checked=not truncate)


def _checked_limit(what: str, max_steps: Any) -> int:
    try:
        limit = operator.index(max_steps)
    except TypeError:
        raise TypeError(f"{what}: max_steps must be a known int, got {max_steps!r}") from None
    if not 1 <= limit < 2**31:
        raise ValueError(f"{what}: max_steps must be from 1 to 2**31 - 1, got {limit}")
    return limit


def _while_loop(
    cond_fun: Any, body_fun: Any, init_val: Any, limit: int | None = None, cut: bool = False, checked: bool = False
) -> Any:
    """A loop of at most `limit` steps; without `cut` the condition is known to keep the limit.

    `checked`: the loop must have ended by its condition.
    """
    init_flat, init_tree = tree.flatten(init_val)
    check_arrays(
        "while_loop", init_flat, lambda: ["init_val" + tree.keystr(p) for p, _ in tree.leaves_with_path(init_val)]
    )
    if config.current().disable_jit and not any(isinstance(x, Tracer) for x in init_flat):
        init_val = tree.map(hooks.as_array, init_val)  # what the body does in place stays in the body
        steps = 0
        while bool(cond_fun(init_val)) and not (cut and steps == limit):
            init_val, steps = body_fun(init_val), steps + 1
        if cut and checked and steps == limit:
            _check_ended(bits.bitwise_not(cond_fun(init_val)), name_of(body_fun), limit)
        return init_val
    in_tree = tree.structure((init_val,))
    for _ in range(3 + len(init_flat)):
        avals = [aval_of(x) for x in init_flat]
        body, body_consts, out_tree, cells = stage_touching(body_fun, in_tree, avals, name_of(body_fun), "while_loop")
        if out_tree != init_tree:
            raise errors.CarryTypeError(
                f"while_loop: body_fun output and input must have same type structure, got {out_tree} and {init_tree}."
            )
        promoted = _promote_carry(init_flat, avals, body.out_avals[: len(avals)])
        widened = cells.widened(_cell_avals(body, cells))
        if promoted is None and not widened:
            condition, cond_consts, cond_tree, asked = stage_touching(
                cond_fun, in_tree, avals, name_of(cond_fun), "while_loop"
            )
            lanes = frozenset().union(*[a.varying for a in condition.out_avals])
            every = ref_scope.Cells.union([asked, cells])
            widened = every.widened([a.with_varying(a.varying | lanes) for a in every.avals()])
            if all(lanes <= a.varying for a in avals) and not widened:
                break
            promoted = [varying_over(x, lanes - a.varying) for x, a in zip(init_flat, avals, strict=True)]
        init_flat = init_flat if promoted is None else promoted
    check_carry("while_loop", name_of(body_fun), init_tree, avals, body.out_avals[: len(avals)])
    if cond_tree != tree.structure(0):
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {cond_tree}.")
    if any(asked.written):
        asked.refuse(f"{name_of(cond_fun)}, the condition of a loop, which may only read")
    if len(every):  # what references hold are more values
        condition, body = every.held_by(condition, asked), every.held_by(body, cells)
        condition = permuted(condition, range(len(condition.invars)), [0])
        avals = [*avals, *every.avals()]
    if list(body.out_avals) != avals:
        inner = body
        body = build(lambda *xs: cast_weak(eval_jaxpr(inner, (), *xs), avals), inner.in_avals, name_of(body_fun))
    verdict = condition.out_avals[0]
    if verdict.shape != () or not dtypes.issubdtype(verdict.dtype, np.bool_):
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) {verdict.str_short()}.")
    count = len(cond_consts)
    kept, rows, fixed = _unchanged(body, len(body_consts), len(avals))
    if any(fixed):  # constants of both programs
        order = [*range(count), *(count + i for i in sorted(range(len(fixed)), key=lambda i: not fixed[i]))]
        condition, body = permuted(condition, order, [0]), permuted(body, kept, rows)
    n_cond, n_body, start = count + sum(fixed), len(body_consts) + sum(fixed), []
    uncounted = condition
    if cut:
        counter, condition, body = counted(condition, body, n_cond, n_body, limit)
        start = [zeros_of(counter)]

    def run(held: Sequence[Any]) -> list[Any]:
        changing, unchanged = partition(fixed, [*init_flat, *held])
        outs = while_p.bind(
            *cond_consts, *unchanged, *body_consts, *unchanged, *start, *changing, cond_jaxpr=intern(condition),
            body_jaxpr=intern(body), cond_nconsts=n_cond, body_nconsts=n_body, max_steps=limit,
        )  # fmt: skip
        if cut and checked:
            (goes_on,) = eval_jaxpr(silent(uncounted), (), *cond_consts, *unchanged, *outs[1:])
            _check_ended(bits.bitwise_not(goes_on), name_of(body_fun), limit)
        return merge(fixed, outs[len(start) :], [hooks.as_array(x) for x in unchanged])

    return init_tree.unflatten(every.through((condition, body), run))


def _check_ended(pred: Any, name: str, limit: Any) -> None:
    """Check that a loop has ended by itself."""
    check(
        pred,
        f"the loop of {name} has not ended after max_steps={limit} steps (truncate=True: stop there without an error)",
    )


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: Any = None,
    max_steps: int | None = None, truncate: bool = False,
) -> Any:  # fmt: skip
    """Repeat `value = body_fun(i, value)` for `i` from `lower` to `upper - 1`.

    With Python (or otherwise known) integer bounds it is a `scan`, whose reverse mode keeps what each step computes. With traced
    bounds it is a `while_loop`; integers bound the number of its steps, so it can be rewound, and `max_steps` makes that take
    less memory (see `while_loop`; without it there are eight levels of 16 kept values each). Bounds that are no integers have
    a reverse mode with `max_steps` only. Where there are more steps than `max_steps` a check fails, or with `truncate` the loop
    stops without a word.

    Parameters
    ----------
    lower, upper : real scalar
    body_fun : callable
        Keeps structure, shapes and dtypes of the value.
    init_val : pytree of arrays
    unroll : int or bool, optional
        As in `scan`; for known bounds only.
    max_steps : int, optional
    truncate : bool
        As in `while_loop`.

    Returns
    -------
    pytree like `init_val`

    Raises
    ------
    FailedCheckError
        There are more than `max_steps` steps, and `truncate` is not set.
    OverflowError
        A bound does not fit the index dtype.
    TypeError
        `body_fun` cannot be called, or bounds are no real scalars of one dtype.
    ValueError
        `unroll` with bounds that are not known.
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    low, high, dtype, weak = _bounds(lower, upper)
    one = 1 if weak else np.asarray(1, dtype)  # the index is weakly typed if both bounds are
    limit = None if max_steps is None else _checked_limit("fori_loop", max_steps)
    if isinstance(low, int) and isinstance(high, int):
        if limit is not None and high - low > limit:
            high = low + limit
            if not truncate:
                _check_ended(False, name_of(body_fun), limit)
        if config.current().disable_jit:
            for i in range(low, high):
                init_val = body_fun(hooks.as_array(i if weak else np.asarray(i, dtype)), init_val)
            return init_val
        start = hooks.as_array(low if weak else np.asarray(low, dtype))

        def step(carry: Any, _: Any) -> Any:
            i, value = carry
            return (elementwise.add(i, one), body_fun(i, value)), None

        size = max(high - low, 0)
        (_, out), _ = scan(
            _renamed(step, body_fun), (start, init_val), None, length=size, unroll=1 if unroll is None else unroll
        )
        return out
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError("Can only use `unroll` in `fori_loop` if the loop bounds are statically known.")

    def body(carry: Any) -> Any:
        i, end, value = carry
        return elementwise.add(i, one), end, body_fun(i, value)

    bounds = (low, high) if weak else (cast.convert_element_type(low, dtype), cast.convert_element_type(high, dtype))
    cut = limit is not None
    if not cut and dtypes.issubdtype(dtype, np.integer):
        limit = 2**31 - 1
    go_on = lambda c: comparison.lt(c[0], c[1])
    return _while_loop(go_on, _renamed(body, body_fun), (*bounds, init_val), limit, cut, not truncate)[2]


def _renamed(wrapper: Any, fun: Any) -> Any:
    wrapper.__name__ = name_of(fun)
    return wrapper


def _bounds(lower: Any, upper: Any) -> tuple[Any, Any, np.dtype, bool]:
    """Bounds as Python ints where they are known, the dtype of the index, and whether it is weak."""
    avals = [aval_of(b) for b in (lower, upper)]
    for bound, aval in zip((lower, upper), avals, strict=True):
        if (
            not (dtypes.issubdtype(aval.dtype, np.integer) or dtypes.issubdtype(aval.dtype, np.floating))
            or aval.shape != ()
        ):
            raise TypeError(
                f"lax.fori_loop: lower and upper must be real scalars, got {bound!r} of type {aval.str_short()}"
            )
    strong = [a for a in avals if not a.weak_type]
    dtype = dtypes.promote_types(avals[0].dtype, avals[1].dtype) if len(strong) != 1 else strong[0].dtype
    if len(strong) == 2 and avals[0].dtype != avals[1].dtype:
        raise TypeError(
            f"lower and upper arguments to fori_loop must have equal types, got {avals[0].dtype} and {avals[1].dtype}."
        )
    if not dtypes.issubdtype(dtype, np.integer):
        return lower, upper, dtype, not strong and avals[0].dtype == avals[1].dtype
    known = []
    for bound in (lower, upper):
        value = bound.concrete() if isinstance(bound, Tracer) else bound
        if value is None or type(value) is Dim:
            return lower, upper, dtype, not strong
        known.append(int(value))
    info = np.iinfo(dtype)
    for value in known:
        if not info.min <= value <= info.max:
            raise OverflowError(
                errors.explain(
                    f"fori_loop: the bound {value} does not fit the index dtype {dtype}",
                    "Python integers are 32-bit unless enable_x64 is on",
                    "pass numpy.int64 bounds, or switch on purax.enable_x64(True)",
                )
            )
    return known[0], known[1], dtype, not strong


def map(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply `f` to each slice of `xs` along its leading axis, one after the other (or `batch_size` at a time, mapped).

    Parameters
    ----------
    f : callable
    xs : pytree of arrays [length, ...]
    batch_size : int, optional

    Returns
    -------
    pytree of arrays [length, ...]

    Raises
    ------
    ValueError
        Arrays without a leading axis or with leading axes of several sizes, no arrays, or a `batch_size` that is negative.
    """
    leaves, treedef = tree.flatten(xs)
    _scan_length(leaves, None, xs, "map")
    if batch_size is not None and not (isinstance(batch_size, (int, np.integer)) and batch_size >= 0):
        raise ValueError(f"map: batch_size must be a positive int or None, got {batch_size!r}")
    if not batch_size:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    mapped = vmap(f)
    return by_blocks(lambda *rows: mapped(treedef.unflatten(rows)), leaves, batch_size)


def by_blocks(mapped: Callable[..., Any], rows: Sequence[Any], block: int) -> Any:
    """`mapped(*rows)`, a function of any number of rows, in a loop over blocks of so many rows."""
    size = aval_of(rows[0]).shape[0]
    rounds, rest = divmod(size, block)
    parts = []
    if rounds:
        blocks = [
            shape.reshape(shape.slice_in_dim(x, 0, rounds * block), (rounds, block, *aval_of(x).shape[1:]))
            for x in rows
        ]
        _, ys = scan(lambda _, b: ((), mapped(*b)), (), blocks)
        parts.append(tree.map(lambda y: shape.reshape(y, (rounds * block, *aval_of(y).shape[2:])), ys))
    if rest or not rounds:
        parts.append(mapped(*[shape.slice_in_dim(x, rounds * block, size) for x in rows]))
    return parts[0] if len(parts) == 1 else tree.map(lambda *ys: shape.concatenate(ys, 0), *parts)
