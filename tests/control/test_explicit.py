# SPDX-License-Identifier: Apache-2.0
"""Explicit mesh axes as users meet them: types, `reshard`, `auto_axes`, `out_sharding`, under every transformation.

Each program runs on plain arrays and on cut ones: the values must be equal, and the types be those that JAX gives.
"""

import copy
import pickle
import re

import numpy as np
import pytest

import purax
from purax import errors, lax, linen, nn, optim, random
from purax import numpy as pnp
from purax.sharding import AxisType, Mesh, NamedSharding, auto_axes, explicit_axes, reshard
from purax.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

RNG = np.random.default_rng(0)
A, B, C = [RNG.normal(size=s).astype(np.float32) for s in ((8, 4), (4, 6), (8, 4))]
W, V, T = [RNG.normal(size=s).astype(np.float32) for s in ((4, 4), (4,), (3, 4, 4))]
IDS = np.array([0, 0, 1, 1, 1, 2, 2, 3])


@pytest.fixture
def mesh():
    mesh = Mesh(np.array(purax.devices()[:8]).reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with purax.set_mesh(mesh):
        yield mesh


def cut(x, *parts, **sums):
    """`x` on the current mesh."""
    return purax.device_put(x, P(*parts, **sums))


def meshed():
    return bool(purax.sharding.get_abstract_mesh().axis_names)


def to(*parts, **sums):
    """A spec for `out_sharding`; None where there is no mesh."""
    return P(*parts, **sums) if meshed() else None


def moved(x, *parts, **sums):
    return reshard(x, P(*parts, **sums)) if meshed() else x


def automatic(fun, *parts):
    return auto_axes(fun, out_sharding=P(*parts)) if meshed() else fun


def typed(x):
    return str(purax.typeof(x))


def loss(w, x):
    return pnp.sum(pnp.tanh(x @ w) ** 2)


def attention(q):
    p = nn.softmax(pnp.einsum("btnh,bsnh->bnts", q, q))
    return pnp.einsum("bnts,bsnh->btnh", p, q)


def cross_entropy(logits, labels):
    return -pnp.take_along_axis(nn.log_softmax(logits), labels[:, None], axis=-1).mean()


def layers(x, ws):
    return lax.scan(lambda c, w: (moved(pnp.tanh(c @ w), "x", None), c.sum()), x, ws)


@purax.custom_jvp
def ruled(x):
    return pnp.sin(x)


@ruled.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    assert x.aval.spread is t.aval.spread
    return ruled(x), pnp.cos(x) * t


@purax.custom_vjp
def ruled_back(x):
    return pnp.sin(x)


def _ruled_forward(x):
    return ruled_back(x), x


def _ruled_backward(x, c):
    assert x.aval.spread is c.aval.spread
    return (c * pnp.cos(x),)


ruled_back.defvjp(_ruled_forward, _ruled_backward)


def solved(b):
    half = lambda mv, b: b / 2.0
    return lax.custom_linear_solve(lambda v: v * 2.0, b, half, transpose_solve=half)


Q = RNG.normal(size=(4, 4, 2, 3)).astype(np.float32)
XY, X_, _Y = ("x", "y"), ("x", None), (None, "y")

# A program, its operands, how these are cut, and the types of its results.
ROWS = {
    "einsum": (lambda a, b: pnp.einsum("ij,jk->ik", a, b, out_sharding=to("x", None)), (A, B), (XY, ("y", None)), "float32[8@x,6]"),
    "matmul": (lambda a, b: a @ b, (A, B), (X_, _Y), "float32[8@x,6@y]"),
    "matmul of a cut axis": (lambda a, b: a @ b, (A, B), (XY, (None, None)), "float32[8@x,6]"),
    "matmul out": (lambda a, b: pnp.matmul(a, b, out_sharding=to("y", None)), (A, B), (XY, ("y", None)), "float32[8@y,6]"),
    "batches": (lambda q: pnp.einsum("btnh,bsnh->bnts", q, q), (Q,), (("x", None, "y", None),), "float32[4@x,2@y,4,4]"),
    "reshape": (lambda a: a.reshape(32), (A,), (X_,), "float32[32@x]"),
    "reshape out": (lambda a: pnp.reshape(a, (4, 8), out_sharding=to(None, "x")), (A,), (XY,), "float32[4,8@x]"),
    "split": (lambda a: a.reshape(4, 2, 4), (A,), (XY,), "float32[4@x,2,4@y]"),
    "transpose": (lambda a: a.T[None], (A,), (XY,), "float32[1,4@y,8@x]"),
    "read": (lambda a: a.at[np.array([0, 5, 2, 7])].get(out_sharding=to("x", None)), (A,), (XY,), "float32[4@x,4]"),
    "read one": (lambda a: a.at[1, 2].get(out_sharding=to()), (A,), (XY,), "float32[]"),
    "write": (lambda a: a.at[np.array([0, 3])].set(2.0, out_sharding=to("x", "y")), (A,), (XY,), "float32[8@x,4@y]"),
    "write column": (lambda a, v: a.at[:, 1].add(v), (A, A[:, 0]), (X_, ("x",)), "float32[8@x,4]"),
    "columns": (lambda a: a[:, 1:3], (A,), (X_,), "float32[8@x,2]"),
    "row": (lambda a: a[0], (A,), (_Y,), "float32[4@y]"),
    "normal": (lambda: random.normal(random.key(0), (8, 4), out_sharding=to("x", "y")), (), (), "float32[8@x,4@y]"),
    "bits": (lambda: lax.rng_bit_generator(pnp.arange(4, dtype="uint32"), (8, 4), out_sharding=to("x"))[1], (), (), "uint32[8@x,4]"),
    "zeros": (lambda: pnp.zeros((8, 4), out_sharding=to("x", "y")), (), (), "float32[8@x,4@y]"),
    "arange": (lambda: pnp.arange(8, out_sharding=to("x")), (), (), "int32[8@x]"),
    "like": (lambda a: pnp.full_like(a, 2.0), (A,), (XY,), "float32[8@x,4@y]"),
    "meet": (lambda a, c: a * c + 1.0, (A, C), (X_, _Y), "float32[8@x,4@y]"),
    "bias": (lambda a, v: nn.relu(a + v), (A, V), (XY, (None,)), "float32[8@x,4@y]"),
    "sum": (lambda a: a.sum(0), (A,), (XY,), "float32[4@y]"),
    "softmax": (nn.softmax, (A,), (XY,), "float32[8@x,4@y]"),
    "sort": (lambda a: pnp.sort(a, 1), (A,), (X_,), "float32[8@x,4]"),
    "systems": (lambda w, b: pnp.linalg.solve(w, b), (W, B), ((None, None), _Y), "float32[4,6@y]"),
    "triangular": (lambda w, a: lax.linalg.triangular_solve(w, a, lower=True), (W, A), ((None, None), X_), "float32[8@x,4]"),
    "callback": (
        lambda a: purax.pure_callback(lambda x: np.asarray(x) * 2, purax.ShapeDtypeStruct((8, 4), np.float32), a), (A,), (XY,),
        "float32[8,4]",
    ),
    "percentile": (lambda a: pnp.percentile(a, 50.0, axis=0, out_sharding=to()), (A,), (X_,), "float32[4]"),
    "segments": (lambda a, i: purax.ops.segment_sum(a, i, 4, out_sharding=to()), (A, IDS), (X_, ("x",)), "float32[4,4]"),
    "concatenate": (lambda a, c: pnp.concatenate([a, c], 1), (A, C), (X_, X_), "float32[8@x,8]"),
    "keys": (lambda: purax.vmap(lambda k: random.normal(k, (3,)))(moved(random.split(random.key(0), 8), "x")), (), (), "float32[8@x,3]"),
    "auto_axes": (lambda a, b: automatic(lambda a, b: pnp.sin(a @ b), "x", None)(a, b) * 2, (A, B), (XY, ("y", None)), "float32[8@x,6]"),
    "vmap uncut": (lambda a: purax.vmap(lambda v: v * 2 + v.sum(), in_axes=1)(a), (A,), (X_,), "float32[4,8@x]"),
    "vmap cut": (lambda a, w: purax.vmap(lambda v: v @ w)(a), (A, W), (X_, _Y), "float32[8@x,4@y]"),
    "vmap, one for all": (lambda a, v: purax.vmap(lambda r, v: v + 1, in_axes=(0, None))(a, v), (A, V), (X_, ("y",)), "float32[8@x,4@y]"),
    "vmap, a constant": (lambda a: purax.vmap(lambda r: pnp.zeros(3), out_axes=1)(a), (A,), (X_,), "float32[3,8@x]"),
    "vmap of reshard": (lambda a: purax.vmap(lambda v: moved(v, "y"))(a), (A,), (X_,), "float32[8@x,4@y]"),
    "scan": (lambda v, a: lax.scan(lambda c, x: (c + x, c * x), v, a)[1], (V, A), (("y",), _Y), "float32[8,4@y]"),
    "scan from zeros": (lambda a: lax.scan(lambda c, x: (c + x, None), pnp.zeros(4), a)[0], (A,), (_Y,), "float32[4@y]"),
    "while_loop": (lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, a))[1], (A,), (XY,), "float32[8@x,4@y]"),
    "fori_loop": (lambda a: lax.fori_loop(0, 3, lambda i, c: c * 2, a), (A,), (XY,), "float32[8@x,4@y]"),
    "cond": (lambda a: lax.cond(a.sum() < 0, lambda a: a * 2, lambda a: a + 1, a), (A,), (XY,), "float32[8@x,4@y]"),
    "cond, zeros": (lambda a: lax.cond(a.sum() < 0, lambda a: a * 2, lambda a: pnp.zeros((8, 4)), a), (A,), (XY,), "float32[8@x,4@y]"),
    "switch": (lambda a: lax.switch(1, [pnp.sin, pnp.cos, pnp.tanh], a), (A,), (XY,), "float32[8@x,4@y]"),
    "solve": (solved, (V,), (("x",),), "float32[4@x]"),
    "attention": (attention, (Q,), (("x", None, "y", None),), "float32[4@x,4,2@y,3]"),
    "embedding": (lambda t, i: t.at[i].get(out_sharding=to("x", "y")), (A, IDS), (_Y, ("x",)), "float32[8@x,4@y]"),
    "jvp": (lambda a: purax.jvp(pnp.sin, (a,), (a,))[1], (A,), (XY,), "float32[8@x,4@y]"),
    "linearize": (lambda a: purax.linearize(lambda a: pnp.sin(a) * 2, a)[1](a), (A,), (XY,), "float32[8@x,4@y]"),
    "hessian": (purax.hessian(lambda v: pnp.sum(pnp.sin(v) ** 3)), (V,), ((None,),), "float32[4,4]"),
    "remainder": (lambda a: divmod(a, 2)[1], (A,), (XY,), "float32[8@x,4@y]"),
}  # fmt: skip


def given(operands, specs):
    return [cut(x, *spec) for x, spec in zip(operands, specs, strict=True)]


def plain(fun, operands):
    return fun(*map(pnp.asarray, operands))


def check(found, want):
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_values_are_those_of_plain_arrays_and_types_say_how_they_lie(name, staged):
    fun, operands, specs, kind = ROWS[name]
    want = plain(fun, operands)
    mesh = Mesh(np.array(purax.devices()[:8]).reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with purax.set_mesh(mesh):
        found = (purax.jit(fun) if staged else fun)(*given(operands, specs))
        assert typed(found) == kind
        assert found.aval.spread is None or found.sharding.spec == found.aval.sharding.spec
    check(found, want)


# Functions of arrays to a scalar: their gradients lie as the operands do.
LOSSES = {
    "product": (loss, (W, A), (_Y, X_)),
    "einsum": (lambda w, x: pnp.sum(pnp.einsum("ij,jk->ik", x, w, out_sharding=to("x", None)) ** 2), (W, A), (("y", None), XY)),
    "reshard": (lambda a: (moved(a, "y", "x") * C).sum(), (A,), (XY,)),
    "auto_axes": (lambda a, b: (automatic(lambda a, b: pnp.sin(a @ b), "x", None)(a, b) ** 2).sum(), (A, B), (XY, ("y", None))),
    "scan": (lambda ws, x: layers(x, ws)[0].sum() + layers(x, ws)[1].sum(), (T, A), ((None, None, "y"), X_)),
    "fori_loop": (lambda a: lax.fori_loop(0, 3, lambda i, c: pnp.sin(c), a).sum(), (A,), (XY,)),
    "bounded loop": (
        lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, pnp.sin(c[1])), (0, a), max_steps=4)[1].sum(), (A,), (XY,)
    ),
    "cond": (lambda a: lax.cond(a.sum() < 0, lambda a: a * a, pnp.sin, a).sum(), (A,), (XY,)),
    "checkpoint": (purax.checkpoint(loss), (W, A), (_Y, X_)),
    "custom_jvp": (lambda a: ruled(a).sum(), (A,), (XY,)),
    "custom_vjp": (lambda a: ruled_back(a).sum(), (A,), (XY,)),
    "solve": (lambda v: (solved(v) ** 2).sum(), (V,), (("x",),)),
    "attention": (lambda q: attention(q).sum(), (Q,), (("x", None, "y", None),)),
    "embedding": (lambda t: (t.at[IDS].get(out_sharding=to("x", None)) ** 2).sum(), (A,), (("y", None),)),
    "cross entropy": (lambda a: cross_entropy(a, cut(IDS, "x") if meshed() else IDS), (A,), (X_,)),
    "lanes": (lambda a, w: purax.vmap(lambda r: pnp.tanh(r @ w))(a).sum(), (A, W), (X_, _Y)),
}  # fmt: skip


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_lie_as_what_they_belong_to(name, staged):
    fun, operands, specs = LOSSES[name]
    derived = purax.value_and_grad(fun, argnums=tuple(range(len(operands))))
    want_value, want = plain(derived, operands)
    mesh = Mesh(np.array(purax.devices()[:8]).reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with purax.set_mesh(mesh):
        xs = given(operands, specs)
        value, found = (purax.jit(derived) if staged else derived)(*xs)
        for x, g, w in zip(xs, found, want, strict=True):
            assert typed(g) == typed(x)
            assert g.sharding.spec == x.sharding.spec
            check(g, w)
    check(value, want_value)


def test_types_print_and_tell(mesh):
    a = cut(A, ("x", "y"), None)
    assert typed(a) == "float32[8@(x,y),4]"
    assert purax.typeof(a).sharding == NamedSharding(mesh.abstract_mesh, P(("x", "y"), None))
    assert repr(purax.typeof(a)) == "ShapedArray(float32[8@(x,y),4])"
    assert typed(cut(A, unreduced={"x", "y"})) == "float32[8,4]{U:(x,y)}"
    assert typed(pnp.asarray(1.0)) == "~float32[]"
    assert str(P("x")) == "P('x',)" and str(P(unreduced={"x"})) == "P(unreduced={'x'})"


def test_errors_say_the_types_and_what_to_write(mesh):
    a = cut(A, "x", "y")
    with pytest.raises(
        errors.ShardingTypeError, match=r"dot_general\(float32\[8@x,4@y\], float32\[4@y,6\]\).*out_sharding=P"
    ):
        a @ cut(B, "y", None)
    with pytest.raises(errors.ShardingTypeError, match=r"add\(float32\[8@x,4\], float32\[8@y,4\]\).*`reshard` one"):
        cut(A, "x", None) + cut(A, "y", None)
    with pytest.raises(errors.ShardingTypeError, match=r"P\('x', 'x'\), which uses the mesh axis 'x' twice"):
        pnp.outer(cut(V, "x"), cut(V, "x"))
    with pytest.raises(errors.ShardingTypeError, match=r"slice\(float32\[8@x,4@y\]\)"):
        a[0]
    with pytest.raises(errors.UnreducedError, match=r"sin\(float32\[8,4\]\{U:x\}\).*`reshard` it first"):
        pnp.sin(cut(A, unreduced={"x"}))
    with pytest.raises(errors.UnreducedError, match=r"segment_max.*no sum"):
        purax.ops.segment_max(cut(A, "x"), cut(IDS, "x"), 4, out_sharding=P(unreduced={"x"}))
    with pytest.raises(ValueError, match=r"Resource axis: z of .* is not found in mesh"):
        reshard(A, P("z"))
    with pytest.raises(errors.ShardingTypeError, match="4 pieces"):
        purax.jit(lambda a: reshard(a, P("x")))(np.ones((3, 3), np.float32))
    with pytest.raises(ValueError, match="memory_kind is not allowed"):
        pnp.zeros(8, out_sharding=NamedSharding(mesh.abstract_mesh, P("x"), memory_kind="pinned_host"))
    with pytest.raises(ValueError, match="3 entries"):
        reshard(A, P(None, None, "x"))
    assert typed(reshard(A, P("x", None, None))) == "float32[8@x,4]"
    with pytest.raises(TypeError, match="give out_sharding"):
        auto_axes(pnp.sin)(a)
    with pytest.raises(TypeError, match="give in_sharding"):
        explicit_axes(pnp.sin)(a)
    with pytest.raises(ValueError, match=r"cannot contain `P.UNCONSTRAINED`"):
        NamedSharding(mesh, P(P.UNCONSTRAINED))
    with pytest.raises(ValueError, match="mapped away dimension"):
        purax.vmap(pnp.add)(cut(A, "x", None), cut(A, None, None))
    with pytest.raises(ValueError, match="Only one of spmd_axis_name or arrays sharded on"):
        purax.vmap(pnp.sin, spmd_axis_name="y")(a)
    with pytest.raises(errors.CarryTypeError, match=r"float32\[8@x,4@y\].*float32\[8@x,4\]"):
        lax.scan(lambda c, _: (reshard(c, P("x", None)), None), a, length=2)
    with pytest.raises(errors.BranchTypeError, match="float32"):
        purax.jit(lambda a: lax.cond(a.sum() > 0, lambda a: a, lambda a: reshard(a, P("y", None)), a))(a)
    with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
        purax.jit(pnp.sin, in_shardings=P("x", None))(a)
    with pytest.raises(AssertionError, match="constraint is an assertion"):
        purax.jit(lambda a: lax.with_sharding_constraint(a, P("x", None)))(a)


def test_without_a_mesh_a_spec_says_nothing():
    with pytest.raises(ValueError, match="no current mesh"):
        reshard(A, P("x"))


def test_jit_takes_and_gives_what_it_is_told(mesh):
    fun = purax.jit(lambda a: a * 2, in_shardings=P("x", "y"), out_shardings=P("x", "y"), donate_argnums=0)
    out = fun(A)
    assert typed(out) == "float32[8@x,4@y]"
    check(out, A * 2)
    given = cut(A, "x", "y")
    check(fun(given), A * 2)
    assert given.is_deleted()
    inside = []
    purax.jit(lambda a: inside.append(typed(a)), in_shardings=P("x"))(A)
    assert inside == ["float32[8@x,4]"]
    with pytest.warns(UserWarning, match=r"not usable.*float32\[8@x,4@y\]"):
        purax.jit(lambda a: a * 2, out_shardings=P("y", None), donate_argnums=0)(cut(A, "x", "y"))
    held = cut(C, "x", None)
    closed = purax.jit(lambda a: purax.jit(lambda b: b + 1)(a) * held)
    assert typed(closed(cut(A, "x", None))) == "float32[8@x,4]"
    check(closed(cut(A, "x", None)), (A + 1) * C)


def test_the_second_call_compiles_nothing(mesh):
    fun = purax.jit(lambda a: purax.grad(loss)(W, a))
    a = cut(A, "x", None)
    seen = []

    def traced(a):
        seen.append(typed(a))
        return fun(a)

    outer = purax.jit(traced)
    for _ in range(3):
        outer(a)
    outer(cut(C, "x", None))
    assert seen == ["float32[8@x,4]"]
    outer(cut(A, None, "y"))
    assert seen == ["float32[8@x,4]", "float32[8,4@y]"]


def test_terms_of_sums(mesh):
    a, b = cut(A, "x", "y"), cut(W, "y", None)
    out = pnp.einsum("ij,jk->ik", a, b, out_sharding=P("x", None, unreduced={"y"}))
    assert typed(out) == "float32[8@x,4]{U:y}"
    check(out, A @ W)  # reading takes the sum
    check(reshard(out + out, P("x", None)), 2 * A @ W)
    check(reshard(-out.T, P(None, "x")), -(A @ W).T)
    total = lax.reduce_sum(out, axes=(0,), out_sharding=P(unreduced={"x", "y"}))
    assert typed(total) == "float32[4]{U:(x,y)}"
    check(total, (A @ W).sum(0))
    for one in (a, cut(A, ("x", "y"), None)):  # along y the sum is taken
        total = lax.reduce_sum(one, axes=(0, 1), out_sharding=P(unreduced={"x"}))
        assert typed(total) == "float32[]{U:x}"
        check(total, A.sum())
    rows = purax.ops.segment_sum(a, cut(IDS, "x"), 4, out_sharding=P(None, "y", unreduced={"x"}))
    assert typed(rows) == "float32[4,4@y]{U:x}"
    check(rows, np.stack([A[i == IDS].sum(0) for i in range(4)]))


@pytest.mark.parametrize("staged", [False, True])
def test_gradients_of_reduced_operands_are_terms(mesh, staged):
    want = purax.grad(loss)(pnp.asarray(W), pnp.asarray(A))
    gradient = purax.grad(loss)
    found = (purax.jit(gradient) if staged else gradient)(cut(W, reduced={"x"}), cut(A, "x", None))
    assert typed(found) == "float32[4,4]{U:x}"
    check(found, want)
    check(reshard(found, P()), want)


def test_axes_change_their_types(mesh):
    kinds = []

    @auto_axes(axes="x", out_sharding=P("x", "y"))
    def some(a):
        kinds.append(typed(a))
        return a * 2

    @auto_axes(out_sharding=P("x", "y"))
    def outer(a):
        kinds.append(typed(a))

        @explicit_axes(in_sharding=P("x", None))
        def inner(a):
            kinds.append(typed(a))
            return a * 2

        return inner(a)

    a = cut(A, "x", "y")
    for fun in (some, outer, purax.jit(some), purax.jit(outer)):
        assert typed(fun(a)) == "float32[8@x,4@y]"
        check(fun(a), A * 2)
    assert kinds[0] == "float32[8,4@y]" and kinds[2:4] == ["float32[8,4]", "float32[8@x,4]"]


def test_explicit_axes_within_automatic_ones_leave_the_results_to_the_partitioner():
    mesh = Mesh(np.array(purax.devices()[:8]).reshape(4, 2), ("x", "y"))
    with purax.set_mesh(mesh):
        f = explicit_axes(pnp.sin, in_sharding=P("x", None))
        out = purax.jit(lambda a: f(a * 2) + 1)(purax.device_put(A, P("x", "y")))
    assert out.sharding == NamedSharding(mesh, P("x"))
    check(out, np.sin(A * 2) + 1)


SHARDED = {
    "psum": (lambda a: lax.psum(a, "x"), P(), "float32[2,4@y]", lambda a: a.reshape(4, 2, 4).sum(0)),
    "pmax": (lambda a: lax.pmax(a, "x"), P(), "float32[2,4@y]", lambda a: a.reshape(4, 2, 4).max(0)),
    "ppermute": (lambda a: lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]), P("x"), "float32[8@x,4@y]", lambda a: np.roll(a, 2, 0)),
    "all_gather": (lambda a: lax.all_gather(a, "x", tiled=True)[:2], P("x"), "float32[8@x,4@y]", lambda a: np.tile(a[:2], (4, 1))),
    "axis_index": (lambda a: a * lax.axis_index("x"), P("x"), "float32[8@x,4@y]", lambda a: a * np.repeat(np.arange(4), 2)[:, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARDED)
def test_some_axes_in_the_hands_of_shard_map(mesh, name):
    fun, spec, kind, reference = SHARDED[name]
    kinds = []

    def local(a):
        kinds.append(typed(a))
        return fun(a)

    out = purax.jit(purax.shard_map(local, in_specs=P("x"), out_specs=spec, axis_names={"x"}))(cut(A, "x", "y"))
    assert kinds == ["float32[2,4@y]{V:x}"]
    assert typed(out) == kind
    check(out, reference(A))


def test_shard_map_with_all_axes_and_its_gradient(mesh):
    a = cut(A, "x", "y")
    fun = purax.shard_map(lambda a: lax.psum(pnp.sin(a), "x"), in_specs=P("x", "y"), out_specs=P(None, "y"))
    assert typed(fun(a)) == "float32[2,4@y]"
    check(fun(a), np.sin(A).reshape(4, 2, 4).sum(0))
    found = purax.jit(purax.grad(lambda a: fun(a).sum()))(a)
    assert typed(found) == "float32[8@x,4@y]"
    check(found, np.cos(A))


@pytest.mark.parametrize("names", [{"y"}, {"x", "y"}])
def test_lanes_that_are_cut_over_a_shard_map(mesh, names):
    fun = purax.shard_map(lambda v: v * lax.psum(v, "y"), in_specs=P("y"), out_specs=P("y"), axis_names=names)
    out = purax.jit(purax.vmap(fun))(cut(A, "x", None))
    assert typed(out) == "float32[8@x,4@y]"
    check(out, A * np.tile(A[:, :2] + A[:, 2:], (1, 2)))


def test_keys_are_cut(mesh):
    keys = reshard(random.split(random.key(0), 8), P("x"))
    assert typed(keys) == "key<fry>[8@x]"
    assert typed(random.key_data(keys)) == "uint32[8@x,2]"
    assert typed(purax.vmap(random.split)(keys)) == "key<fry>[8@x,2]"
    plain = random.split(random.key(0), 8)
    check(random.key_data(keys), random.key_data(plain))
    check(random.uniform(list(keys)[3], (4,)), random.uniform(plain[3], (4,)))


def test_arrays_are_read_copied_and_kept(mesh):
    a = cut(A, "x", "y")
    check(a, A)
    check(pickle.loads(pickle.dumps(a)), A)
    for other in (copy.copy(a), copy.deepcopy(a), pnp.copy(a)):
        assert typed(other) == typed(a)
        check(other, A)
    assert repr(a).startswith("Array([[") and str(a) == str(A)
    rows = list(a)
    assert len(rows) == 8
    check(np.stack(rows), A)
    check(rows[0] + rows[1], A[0] + A[1])
    assert a.tolist() == A.tolist() and float(a[:, :2].sum()) == pytest.approx(float(A[:, :2].sum()), rel=1e-5)
    assert typed(a + np.ones((8, 4), np.float32)) == typed(np.float32(2) * a) == "float32[8@x,4@y]"


def test_axes_change_their_names(mesh):
    @purax.jit
    def fun(a):
        with purax.sharding.use_abstract_mesh(mesh.abstract_mesh.update(axis_sizes=(8, 1), axis_names=("a", "b"))):
            return reshard(pnp.sin(a), P(("a", "b"), None)) * 2

    out = fun(cut(A, "x", "y"))
    assert typed(out) == "float32[8@(a,b),4]"
    check(out, np.sin(A) * 2)


def test_a_mesh_with_automatic_axes_beside():
    mesh = Mesh(np.array(purax.devices()[:8]).reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    want = purax.grad(loss)(pnp.asarray(W), pnp.asarray(A))
    with purax.set_mesh(mesh):
        w, a = cut(W, None, "y"), cut(A, "x", None)
        assert typed(w) == "float32[4,4]" and typed(a) == "float32[8@x,4]"
        for fun in (purax.grad(loss), purax.jit(purax.grad(loss))):
            found = fun(w, a)
            assert typed(found) == "float32[4,4]"
            check(found, want)


def test_exported_functions_keep_their_types(mesh):
    a = cut(A, "x", None)
    exported = purax.export.export(purax.jit(lambda a: pnp.sin(a) @ W))(a)
    again = purax.export.deserialize(exported.serialize())
    out = purax.jit(again.call)(a)
    assert typed(out) == "float32[8@x,4]"
    check(out, np.sin(A) @ W)


class MLP(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Dense(8)(x))
        return linen.Dense(4)(x)


def losses(place_params, place_data):
    model = MLP()
    params = model.init(random.key(0), pnp.asarray(A))
    optimizer = optim.adamw(1e-2)
    params = place_params(params)
    state = optimizer.init(params)
    x, y = place_data(A), place_data(C)

    @purax.jit
    def step(params, state):
        value, gradient = purax.value_and_grad(lambda p: pnp.mean((model.apply(p, x) - y) ** 2))(params)
        updates, state = optimizer.update(gradient, state, params)
        return optim.apply_updates(params, updates), state, value

    found = []
    for _ in range(3):
        params, state, value = step(params, state)
        found.append(float(value))
    return found, params


def test_training_with_a_cut_batch(mesh):
    want, params = losses(lambda p: p, lambda x: pnp.asarray(x))
    found, trained = losses(lambda p: cut(p), lambda x: cut(x, "x", None))
    np.testing.assert_allclose(found, want, rtol=1e-5)
    purax.tree.map(check, trained, params)
    assert typed(trained["params"]["Dense_0"]["kernel"]) == "float32[4,8]"


def test_training_with_cut_weights(mesh):
    def tensor_parallel(p):
        first, second = p["params"]["Dense_0"], p["params"]["Dense_1"]
        return {
            "params": {
                "Dense_0": {"kernel": cut(first["kernel"], None, "y"), "bias": cut(first["bias"], "y")},
                "Dense_1": {"kernel": cut(second["kernel"], None, None), "bias": cut(second["bias"], None)},
            }
        }

    want, params = losses(lambda p: p, lambda x: pnp.asarray(x))
    found, trained = losses(tensor_parallel, lambda x: cut(x, "x", None))
    np.testing.assert_allclose(found, want, rtol=1e-5)
    purax.tree.map(check, trained, params)
    assert typed(trained["params"]["Dense_0"]["kernel"]) == "float32[4,8@y]"


def whole(x):
    """The value, summed over devices where that is left open."""
    return np.asarray(x)


LEFT_OPEN = {
    "einsum": lambda a, b: pnp.einsum("ij,jk->ki", a, b, out_sharding=to(None, None, unreduced={"y"})),
    "matmul": lambda a, b: pnp.matmul(a, b, out_sharding=to(None, None, unreduced={"y"})),
}


@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ["einsum", "matmul"])
def test_derivatives_of_sums_that_are_left_open(mesh, name, staged):
    fun, run = LEFT_OPEN[name], purax.jit if staged else (lambda f: f)
    a, b, da, db = cut(A, None, "y"), cut(B, "y"), cut(C, None, "y"), cut(B * 2, "y")
    out, tangent = run(lambda *xs: purax.jvp(fun, xs[:2], xs[2:]))(a, b, da, db)
    want, want_tangent = A @ B, C @ B + A @ (2 * B)
    if name == "einsum":
        want, want_tangent = want.T, want_tangent.T
    assert typed(tangent).endswith("{U:y}")
    np.testing.assert_allclose(whole(out), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(whole(tangent), want_tangent, rtol=1e-5, atol=1e-5)
    lanes = run(purax.vmap(fun, in_axes=(0, None)))(cut(np.stack([A, C]), None, None, "y"), b)
    np.testing.assert_allclose(whole(lanes)[0], want, rtol=1e-5, atol=1e-5)
    gradient = run(purax.grad(lambda a: (moved(fun(a, b)) ** 2).sum()))(a)
    np.testing.assert_allclose(gradient, 2 * A @ B @ B.T, rtol=1e-4, atol=1e-4)


FREED = {
    "reshape": lambda r: lax.reshape(pnp.sin(r) * 2, (32,), out_sharding=to("x")),
    "matmul": lambda r: pnp.matmul(r, B, out_sharding=to("x", None)),
    "get": lambda r: r.at[pnp.array([1, 2])].get(out_sharding=to()),
    "auto_axes": lambda r: automatic(lambda r: pnp.sin(r) * r)(r),
}


@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", list(FREED))
def test_gradients_of_reduced_values_through_what_the_partitioner_decides(mesh, name, staged):
    def loss(r):
        return (FREED[name](r) ** 2).sum()

    gradient = (purax.jit if staged else lambda f: f)(purax.grad(loss))(cut(A, reduced={"x"}))
    assert typed(gradient) == "float32[8,4]{U:x}"
    with purax.set_mesh(None):
        want = purax.grad(loss)(pnp.asarray(A))
    np.testing.assert_allclose(whole(gradient), want, rtol=1e-5, atol=1e-5)


def test_type_like_a_traced_value_says_how_it_lies(mesh):
    @purax.jit
    def ones(x):
        like = purax.ShapeDtypeStruct.like(x)
        assert like.sharding.spec == P("x", None)
        return pnp.ones(like.shape, like.dtype, out_sharding=like.sharding)

    assert purax.typeof(ones(cut(A, "x"))).sharding.spec == P("x", None)
    assert purax.ShapeDtypeStruct.like(pnp.ones(3)).sharding is None
    assert purax.ShapeDtypeStruct.like(cut(A, "x")).sharding == NamedSharding(purax.sharding.get_mesh(), P("x"))


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("checked", [False, True])
def test_sums_are_left_open_and_taken_by_shard_map(mesh, jitted, checked):
    product = purax.shard_map(lambda a, b: a @ b, out_specs=P(None, "y", unreduced={"x"}), check_vma=checked)
    product = purax.jit(product) if jitted else product
    taken = purax.shard_map(lambda t: lax.psum(t, "x"), out_specs=P(None, "y"), check_vma=checked)
    scattered = purax.shard_map(
        lambda t: lax.psum_scatter(t, "x", tiled=True), out_specs=P("x", "y"), check_vma=checked
    )
    a, b = cut(A, None, "x"), cut(B, "x", "y")
    terms = product(a, b)
    assert purax.typeof(terms).str_short() == "float32[8,6@y]{U:x}"
    assert {piece.data.shape for piece in terms.addressable_shards} == {(8, 3)}
    for total in (terms, purax.reshard(terms, P()), taken(terms), scattered(terms)):
        np.testing.assert_allclose(np.asarray(total), A @ B, rtol=2e-5, atol=1e-5)

    loss = lambda total: lambda a, b: pnp.sum(purax.reshard(total(product(a, b)), P()) ** 2)
    plain = purax.grad(lambda a, b: pnp.sum((a @ b) ** 2), argnums=(0, 1))
    with purax.set_mesh(Mesh(np.array(purax.devices()[:1]), ("one",))):
        expected = plain(A, B)
    for total in (lambda x: x, taken, scattered):
        found = purax.grad(loss(total), argnums=(0, 1))(a, b)
        assert [purax.typeof(x).str_short() for x in found] == ["float32[8,4@x]", "float32[4@x,6@y]"]
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-4, atol=1e-4)
    assert purax.typeof(purax.grad(lambda t: pnp.sum(taken(t)))(terms)).str_short() == "float32[8,6@y]{R:x}"


@pytest.mark.parametrize("x", [np.ones(8, bool), random.split(random.key(0), 8)], ids=["bool", "key"])
def test_only_numbers_are_sums_that_are_left_open(mesh, x):
    name = purax.typeof(x[:2]).str_short()
    with pytest.raises(errors.DTypeError, match=f"output has type {re.escape(name)}.*only numbers"):
        purax.shard_map(lambda x: x, in_specs=P("x"), out_specs=P(unreduced={"x"}))(x)
    with pytest.raises(errors.DTypeError, match=r"argument x has type .*only numbers"):
        purax.shard_map(lambda x: x, in_specs=P(unreduced={"x"}), out_specs=P("x"))(x)


def test_terms_that_all_devices_share_are_refused(mesh):
    with pytest.raises(ValueError, match="hold the same value"):
        purax.shard_map(lambda x: lax.psum(x, "x"), out_specs=P(unreduced={"x"}))(cut(A, "x"))
    with pytest.raises(ValueError, match="'y', which is not among axis_names"):
        purax.shard_map(lambda x: x, in_specs=P("x"), axis_names={"x"}, out_specs=P("x", unreduced={"y"}))(cut(A, "x"))
    with pytest.raises(ValueError, match=r"has type float32\[2,4\], of 2 axes"):
        purax.shard_map(lambda x: x, in_specs=P("x"), out_specs=P(None, None, "x", unreduced={"y"}))(cut(A, "x"))
