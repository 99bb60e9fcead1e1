# SPDX-License-Identifier: Apache-2.0
"""Mutable references: reading and writing, in programs of all kinds, with derivatives and lanes, and wrong uses."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import purax
from purax import ad, errors, grad, jit, lax, vmap
from purax import numpy as pnp
from purax import ref as refs


def test_a_reference_is_read_and_written_by_index():
    ref = purax.new_ref(pnp.arange(6.0).reshape(2, 3))
    before = ref[...]
    ref[0] = 7.0
    ref[1, 1:] += 1
    ref.at[:, 0].addupdate(pnp.array([1.0, 2.0]))
    assert float(ref.swap(9.0, (0, 2))) == 7.0
    view = ref.at[1].at[1:]
    view[...] *= 2
    np.testing.assert_array_equal(ref[...], [[8, 7, 9], [5, 10, 12]])
    np.testing.assert_array_equal(before, np.arange(6.0).reshape(2, 3))  # what was read stays
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref), view.shape) == ((2, 3), np.float32, 2, 6, 2, (2,))
    assert isinstance(ref, purax.Ref) and not isinstance(ref, purax.Array)


def test_types_of_references_are_those_of_what_they_hold():
    ref, weak = purax.new_ref(pnp.zeros((2, 3))), purax.new_ref(1.0)
    kind = purax.typeof(ref)
    assert (repr(kind), kind.shape, kind.dtype, kind.size) == ("Ref{float32[2,3]}", (2, 3), np.float32, 6)
    assert kind == purax.typeof(purax.new_ref(pnp.ones((2, 3)))) != purax.typeof(ref[...])
    half = pnp.ones(2, "float16")
    for value in (2.0, np.float32(3)):  # a weak type stays one
        weak[...] = value
        assert (weak[...] * half).dtype == jit(lambda r: r[...] * half)(weak).dtype == np.float16
    promised = purax.ShapeDtypeStruct((2,), "float32", is_ref=True)
    assert promised != purax.ShapeDtypeStruct((2,), "float32") and promised == promised.update(shape=(2,))


def test_functions_of_references_do_what_indexing_does():
    ref = purax.new_ref(pnp.zeros(3))
    refs.set(ref, 1, 2.0)
    refs.addupdate(ref, None, 1.0)
    assert float(refs.swap(ref, 0, 5.0)) == 1.0 and float(refs.get(ref, 0)) == 5.0
    np.testing.assert_array_equal(refs.get(ref), [5, 3, 1])
    empty = purax.empty_ref(purax.ShapeDtypeStruct((2,), "float32"))
    empty[...] = 3.0
    np.testing.assert_array_equal(purax.freeze(empty), [3, 3])


def bump(ref, by):
    ref[...] += by
    ref[0] = by
    return ref[...].sum()


def test_jitted_functions_change_their_arguments_and_what_they_capture():
    passed, captured, read = purax.new_ref(pnp.zeros(3)), purax.new_ref(0), purax.new_ref(10.0)

    @jit
    def fun(ref, by):
        captured[...] += 1
        return bump(ref, by) + read[...]

    assert [float(fun(passed, by)) for by in (1.0, 2.0)] == [13.0, 18.0]
    read[...] = 20.0  # read anew at each call
    assert float(fun(passed, 0.0)) == 26.0
    np.testing.assert_array_equal(passed[...], [0, 3, 3])
    assert int(captured[...]) == 3
    nested = jit(lambda: jit(lambda: fun(passed, 1.0))())
    assert float(nested()) == 29.0 and int(captured[...]) == 4


PROGRAMS = {
    "jit": lambda step: jit(lambda: step())(),
    "scan": lambda step: lax.scan(lambda c, _: (step(), c)[1:] * 2, 0.0, None, 3),
    "fori": lambda step: lax.fori_loop(0, 3, lambda i, c: (step(), c)[1], 0.0),
    "while": lambda step: lax.while_loop(lambda i: i < 3, lambda i: (step(), i + 1)[1], 0),
    "map": lambda step: lax.map(lambda x: (step(), x)[1], pnp.arange(3)),
    "cond": lambda step: lax.cond(pnp.bool_(True), step, lambda: None),
    "switch": lambda step: lax.switch(pnp.int32(1), [lambda: None, step, lambda: None]),
    "checkpoint": lambda step: purax.checkpoint(step)(),
    "scan of cond": lambda step: lax.scan(
        lambda c, i: lax.cond(i == 1, step, lambda: None) or (c, i), 0.0, pnp.arange(3)
    ),
}
TIMES = {"scan": 3, "fori": 3, "while": 3, "map": 3}


@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_writes_leave_programs_of_all_kinds(kind, outer):
    ref, other = purax.new_ref(pnp.array([0.3, 0.4])), purax.new_ref(5)

    def step():
        ref[...] = pnp.sin(ref[...]) + 1
        other[...] += 1

    def run():
        PROGRAMS[kind](step)

    outer(run)()
    want = np.array([0.3, 0.4])
    for _ in range(TIMES.get(kind, 1)):
        want = np.sin(want) + 1
    np.testing.assert_allclose(ref[...], want, rtol=1e-6)
    assert int(other[...]) == 5 + TIMES.get(kind, 1)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_derivatives_and_lanes_go_through_references(kind):
    def fun(x):
        ref = purax.new_ref(x)

        def step():
            ref[...] = pnp.sin(ref[...]) + x

        PROGRAMS[kind](step)
        return purax.freeze(ref)

    def written(x):
        value = x
        for _ in range(TIMES.get(kind, 1)):
            value = pnp.sin(value) + x
        return value

    want, (slope,) = purax.jvp(written, (0.7,), (1.0,))[0], (grad(written)(0.7),)
    np.testing.assert_allclose(purax.jvp(jit(fun), (0.7,), (1.0,)), (want, slope), rtol=1e-5)
    if kind != "while":
        np.testing.assert_allclose(grad(fun)(0.7), slope, rtol=1e-5)
    xs = pnp.array([0.1, 0.7])
    np.testing.assert_allclose(vmap(fun)(xs), [written(x) for x in xs], rtol=1e-6)


def test_each_lane_and_each_step_may_have_its_row_of_a_reference():
    ref = purax.new_ref(pnp.zeros((3, 2)))
    out = vmap(lambda r, x: bump(r, x), in_axes=(0, 0))(ref, pnp.arange(3.0))
    np.testing.assert_array_equal(ref[...], [[0, 0], [1, 1], [2, 2]])
    np.testing.assert_array_equal(out, [0, 2, 4])
    vmap(lambda r: r.addupdate(1.0), in_axes=1)(ref)
    _, sums = lax.scan(lambda c, row: (c, bump(row[0], row[1])), (), (ref, pnp.array([5.0, 6.0, 7.0])))
    np.testing.assert_array_equal(ref[...], [[5, 6], [6, 8], [7, 10]])
    np.testing.assert_array_equal(sums, [11, 14, 17])


@pytest.mark.parametrize("chunk", [None, 1, 2, 5])
def test_lanes_in_chunks_have_rows_of_references(chunk):
    ref, read = purax.new_ref(pnp.arange(10.0).reshape(2, 5)), purax.new_ref(3.0)

    def fun(row, x, shared):
        row[...] += x * shared[...]
        return row.shape[0] * x

    out = vmap(fun, (1, 0, None), chunk=chunk)(ref, pnp.arange(5.0), read)
    np.testing.assert_array_equal(out, 2 * np.arange(5.0))
    np.testing.assert_array_equal(ref[...], np.arange(10.0).reshape(2, 5) + 3 * np.arange(5.0))


def test_cotangents_are_added_to_references():
    total = purax.new_ref(pnp.zeros(3))
    for _ in range(2):
        _, pull = purax.vjp(lambda x, y: (x * y).sum(), pnp.arange(3.0), 2.0)
        given, found = pull.with_refs(total, ad.GradValue())(1.0)
        assert given == ad.GradRef() and float(found) == 3.0
    np.testing.assert_array_equal(total[...], [4, 4, 4])


def test_a_backward_rule_may_write_what_it_sees():
    seen = purax.new_ref(0.0)

    @purax.custom_vjp
    def watch(ref, x):
        return x

    def backward(ref, cotangent):
        ref[...] = cotangent
        return None, cotangent

    watch.defvjp(lambda ref, x: (x, ref), backward)
    grad(lambda x: pnp.sin(watch(seen, pnp.sin(x))))(1.0)
    np.testing.assert_allclose(seen[...], np.cos(np.sin(1.0)), rtol=1e-6)


def noting(ref, x):
    """`x`, whose cotangent is added to a reference."""

    @purax.custom_vjp
    def note(ref, x):
        return x

    def backward(ref, cotangent):
        ref[...] = 2 * ref[...] + cotangent
        return None, cotangent

    note.defvjp(lambda ref, x: (x, ref), backward)
    return note(ref, x)


OTHER = purax.new_ref(0.0)
NOTED = {
    "jit": lambda ref, x: jit(lambda ref, x: noting(ref, pnp.sin(x)))(ref, x),
    "captured": lambda ref, x: jit(lambda x: noting(ref, pnp.sin(x)))(x),
    "scan": lambda ref, x: lax.scan(lambda c, _: (noting(ref, pnp.sin(c)), None), x, None, 1)[0],
    "checkpoint": lambda ref, x: lax.scan(purax.checkpoint(lambda c, _: (noting(ref, pnp.sin(c)), None)), x, None, 1)[
        0
    ],
    "cond": lambda ref, x: lax.cond(x > 0, lambda x: noting(ref, pnp.sin(x)), lambda x: x, x),
    "several": lambda ref, x: lax.cond(x > 0, lambda x: noting(ref, pnp.sin(x)), lambda x: noting(OTHER, x), x),
}


@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", NOTED)
def test_backward_rules_write_references_inside_of_programs(kind, outer):
    ref = purax.new_ref(0.0)
    derivative = outer(grad(lambda ref, x: pnp.sin(NOTED[kind](ref, x)), 1))
    for want in (1, 3, 7):  # the rule sees what it wrote the last time
        np.testing.assert_allclose(derivative(ref, 1.0), np.cos(np.sin(1.0)) * np.cos(1.0), rtol=1e-6)
        np.testing.assert_allclose(ref[...], want * np.cos(np.sin(1.0)), rtol=1e-6)


LOOPS = {
    "scan": lambda step, x, n: lax.scan(lambda c, _: (step(c), None), x, None, 3)[0],
    "fori": lambda step, x, n: lax.fori_loop(0, n, lambda i, c: step(c), x),
    "while": lambda step, x, n: lax.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1])), (0, x), max_steps=5
    )[1],
}


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_pulled_back_writes_a_reference_once_per_step(kind):
    ref = purax.new_ref(0.0)
    loop = jit(lambda x, n: LOOPS[kind](lambda c: noting(ref, 3 * c), x, n))
    assert float(grad(loop)(1.0, 3)) == 27
    assert float(ref[...]) == 1 * 4 + 3 * 2 + 9


def test_rules_that_references_cannot_follow_say_so():
    ref = purax.new_ref(2.0)
    with pytest.raises(errors.ReferenceUseError, match="which forward mode transposes"):
        purax.jvp(jit(lambda x: noting(ref, x)), (1.0,), (1.0,))

    @purax.custom_vjp
    def scaled(x):
        return x * ref[...]

    scaled.defvjp(lambda x: (x * ref[...], ref[...]), lambda factor, c: (c * factor,))
    assert float(grad(scaled)(1.0)) == 2
    with pytest.raises(errors.ReferenceUseError, match="was read inside grad"):  # not written into the program
        grad(jit(scaled))(1.0)


def test_forward_mode_reads_the_references_of_backward_rules():
    factor = purax.new_ref(2.0)

    @purax.custom_vjp
    def scaled(x):
        return pnp.sin(x)

    scaled.defvjp(lambda x: (pnp.sin(x), pnp.cos(x)), lambda slope, c: (c * slope * factor[...],))
    forward = lambda x: purax.jvp(lambda x: scaled(2 * x), (x,), (1.0,))[1]
    compiled, mapped = jit(forward), jit(vmap(forward))
    for value in (2.0, 5.0):  # what the reference holds at the time of the call
        factor[...] = value
        for run in (forward, compiled, lambda x: mapped(pnp.array([x, 0.0]))[0]):
            np.testing.assert_allclose(run(0.3), value * 2 * np.cos(0.6), rtol=1e-6)
    np.testing.assert_allclose(purax.jacfwd(grad(scaled))(0.3), -5 * np.sin(0.3), rtol=1e-6)
    with pytest.raises(errors.ReferenceUseError, match="forward mode derives another program"):
        purax.jvp(jit(scaled), (0.3,), (1.0,))
    for run in (lambda f: f, jit):
        with pytest.raises(errors.ReferenceUseError, match="so what it writes would be lost"):
            purax.jvp(run(lambda x: noting(factor, x)), (0.3,), (1.0,))


def test_stages_of_functions_that_touch_references():
    passed, captured = purax.new_ref(pnp.zeros(3)), purax.new_ref(1.0)

    @jit
    def fun(ref, x):
        ref[...] += x
        captured[...] *= 2
        return ref.shape[0] * captured[...]

    compiled = fun.lower(passed, 1.0).compile()
    assert [float(compiled(passed, x)) for x in (1.0, 2.0)] == [6, 12]
    np.testing.assert_array_equal(passed[...], [3, 3, 3])
    other = purax.new_ref(pnp.ones(3))
    promised = purax.ShapeDtypeStruct((3,), "float32", is_ref=True)
    for run in (compiled, fun.lower(promised, 1.0).compile()):
        run(other, 1.0)
    np.testing.assert_array_equal(other[...], [3, 3, 3])
    for shape in (purax.eval_shape(fun, other, 1.0), fun.eval_shape(promised, 1.0), fun.trace(other, 1.0).out_info):
        assert (shape.shape, shape.dtype) == ((), np.float32)
    program = purax.make_jaxpr(lambda: captured.addupdate(1.0))()
    assert [len(program.in_avals), len(program.out_avals)] == [1, 1]  # what it held, and what it holds
    assert float(captured[...]) == 2**4  # looking at programs changed nothing
    with pytest.raises(TypeError, match="mutable reference in the place of"):
        compiled(pnp.zeros(3), 1.0)


def test_functions_of_references_are_traced_once_for_all_references_of_a_type():
    traces = []

    @jit
    def fun(ref):
        traces.append(ref)
        ref.addupdate(1.0)

    held = [purax.new_ref(pnp.zeros(2)) for _ in range(3)]
    for ref in held:
        fun(ref)
    assert len(traces) == 1 and all(float(ref[0]) == 1 for ref in held)


UPDATES = {
    "at": lambda ref: ref.at[0].addupdate(1.0),
    "jit": jit(lambda ref: ref.__setitem__(0, ref[0] + 1)),
    "captured": lambda ref: jit(lambda: ref.addupdate(1.0))(),
    "scan": lambda ref: lax.scan(lambda c, _: (ref.addupdate(0.5), (c, None))[1], (), None, 2),
}


@pytest.mark.parametrize("kind", UPDATES)
def test_updates_from_several_threads_are_not_lost(kind):
    ref, times = purax.new_ref(pnp.zeros(1)), 3 if kind == "captured" else 40
    UPDATES[kind](ref)

    def run():
        for _ in range(times):
            UPDATES[kind](ref)

    threads = [threading.Thread(target=run) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert float(ref[0]) == 1 + 4 * times


def test_a_program_that_calls_python_meanwhile_does_not_lose_an_update_without_a_word():
    ref = purax.new_ref(0.0)

    @jit
    def fun(write):
        ref.addupdate(1.0)
        purax.debug.callback(lambda w: ref.addupdate(10.0) if w else None, write)

    fun(False)
    with pytest.raises(errors.ReferenceUseError, match="was written while a program ran"):
        fun(True)
    assert float(ref[...]) == 11


def test_values_that_are_not_differentiated_may_be_written_outside():
    count, kept = purax.new_ref(0), purax.new_ref(0.0, kind="no_grad_no_remat")

    def fun(x):
        count[...] += 1
        kept[...] = x * 2
        return pnp.sin(x)

    np.testing.assert_allclose(grad(fun)(1.0), np.cos(1.0), rtol=1e-6)
    assert int(count[...]) == 1 and float(kept[...]) == 2.0


@pytest.mark.parametrize(
    ("use", "part"),
    [
        (lambda ref: jit(purax.new_ref)(1.0), "was used as an array"),
        (lambda ref: pnp.sin(ref), "was used as an array"),
        (lambda ref: lax.scan(lambda c, _: (c, purax.new_ref(c)), 0.0, None, 2), "was used as an array"),
        (lambda ref: jit(lambda a, b: None)(ref, ref), "only one reference"),
        (lambda ref: vmap(lambda a, b: None)(ref, ref), "only one reference"),
        (lambda ref: lax.cond(True, lambda a, b: None, lambda a, b: None, ref, ref), "only one reference"),
        (lambda ref: ref.__setitem__(..., np.int16(1)), "dtype int16"),
        (lambda ref: vmap(lambda x: ref.__setitem__(0, x))(pnp.ones(3)), "unbatched array reference"),
        (lambda ref: purax.jvp(lambda x: ref.__setitem__(0, x), (1.0,), (1.0,)), "Move the array reference"),
        (lambda ref: grad(lambda x: (ref.__setitem__(0, x), x)[1])(1.0), "Move the array reference"),
        (
            lambda ref: lax.custom_root(lambda x: (ref.__setitem__(0, 1.0), x)[1], 1.0, lambda f, x: f(x), None),
            "written inside",
        ),
        (lambda ref: purax.export.export(jit(lambda: ref.__setitem__(0, 1.0)))(), "serialize with a closed-over"),
        (lambda ref: purax.export.export(jit(lambda r: r[...]))(ref), "cannot be exported for an argument"),
        (lambda ref: jit(lambda x: x[...] + ref[...])(ref), "closed over and passed as the argument x"),
        (lambda ref: lax.while_loop(lambda i: ref.addupdate(1.0) or i < 3, lambda i: i + 1, 0), "may only read"),
        (lambda ref: (purax.freeze(ref), ref[...]), "frozen"),
        (lambda ref: (purax.free_ref(ref), ref.__setitem__(0, 1.0)), "freed"),
        (lambda ref: purax.new_ref(ref), "takes an array"),
    ],
)
def test_wrong_uses_are_refused(use, part):
    ref = purax.new_ref(pnp.zeros(3))
    with pytest.raises(errors.ReferenceUseError, match=part):
        use(ref)


def test_a_reference_does_not_leave_the_transformation_it_was_made_in():
    left = []
    grad(lambda x: (left.append(purax.new_ref(x)), x)[1])(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match="escaped"):
        left[0][...]


def test_without_jit_references_are_cells_all_the_same():
    ref = purax.new_ref(0.0)
    with purax.disable_jit():
        lax.scan(lambda c, x: (ref.addupdate(x), (c, x))[1], 0.0, pnp.arange(3.0))
        jit(lambda: ref.addupdate(1.0))()
    assert float(ref[...]) == 4.0


def test_programs_that_touch_no_reference_do_not_keep_traces():
    seen = []

    def body(c, x):
        seen.append(weakref.ref(c._trace))
        return c + x, x

    lax.scan(body, 0.0, pnp.arange(3.0))
    gc.collect()
    assert all(trace() is None for trace in seen)


@pytest.mark.devices
def test_devices_read_a_whole_reference_and_may_write_what_they_agree_on():
    ref, read = purax.new_ref(pnp.zeros(2)), purax.new_ref(10.0)
    mesh = purax.make_mesh((8,), ("i",))

    def fun(view, x):
        view[...] = lax.psum(x, "i").sum()
        return x + read[...]

    mapped = purax.shard_map(fun, mesh=mesh, in_specs=(purax.P(), purax.P("i")), out_specs=purax.P("i"))
    for run in (mapped, jit(mapped)):
        np.testing.assert_array_equal(run(ref.at[1:], pnp.arange(8.0)), np.arange(8.0) + 10)
        np.testing.assert_array_equal(ref[...], [0, 28])
        ref[...] = 0.0
    with pytest.raises(errors.ReferenceUseError, match="each device would write its own"):
        purax.shard_map(lambda x: ref.__setitem__(0, x[0]), mesh=mesh, in_specs=purax.P("i"), out_specs=None)(
            pnp.arange(8.0)
        )


IN_PIECES = {
    "plain": lambda step: step(),
    "jit": lambda step: jit(step)(),
    "scan": lambda step: lax.scan(lambda c, _: (step(), c)[1:] * 2, 0.0, None, 1),
    "cond": lambda step: lax.cond(lax.axis_index("i") >= 0, step, lambda: None),
    "checkpoint": lambda step: purax.checkpoint(step)(),
}


def on_devices(fun, in_specs, count=4):
    return purax.shard_map(fun, mesh=purax.make_mesh((count,), ("i",)), in_specs=in_specs, out_specs=None)


@pytest.mark.devices
@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", IN_PIECES)
def test_each_device_updates_its_piece_of_a_reference(kind, outer):
    def fun(ref, x):
        def step():
            ref[...] += x * (lax.axis_index("i") + 1)
            ref[0] = 100.0

        IN_PIECES[kind](step)

    ref = purax.new_ref(pnp.arange(10.0))
    outer(on_devices(fun, (purax.P("i"), purax.P("i"))))(ref.at[:8], pnp.ones(8))
    np.testing.assert_array_equal(ref[...], [100, 2, 100, 5, 100, 8, 100, 11, 8, 9])


@pytest.mark.devices
def test_pieces_of_references_have_derivatives_and_lanes():
    def fun(x):
        ref = purax.new_ref(x)

        def local(ref):
            ref[...] = pnp.sin(ref[...]) * (lax.axis_index("i") + 1)

        on_devices(local, purax.P("i"))(ref)
        return purax.freeze(ref)

    x, factor = pnp.arange(8.0), np.repeat([1, 2, 3, 4], 2)
    for run in (lambda f: f, jit):
        np.testing.assert_allclose(run(grad(lambda x: fun(x).sum()))(x), np.cos(x) * factor, rtol=1e-5, atol=1e-6)
        _, tangent = run(lambda x: purax.jvp(fun, (x,), (pnp.ones(8),)))(x)
        np.testing.assert_allclose(tangent, np.cos(x) * factor, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(run(vmap(fun))(pnp.stack([x, x + 1]))[1], np.sin(x + 1) * factor, rtol=1e-5)


@pytest.mark.devices
@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("given", ["piece", "captured", "lane"])
def test_backward_rules_on_devices_write_references(given, outer):
    @purax.custom_vjp
    def note(ref, x):
        return x

    def backward(ref, cotangent):
        ref[...] += cotangent if given != "captured" else lax.psum(cotangent.sum(), "i")
        return None, cotangent

    note.defvjp(lambda ref, x: (x, ref), backward)
    total = purax.new_ref(0.0)
    x, rows = pnp.arange(4.0), purax.new_ref(pnp.zeros(4))
    if given == "lane":
        mapped = purax.pmap(lambda ref, x: pnp.sin(note(ref, x)), "i")
    else:
        seen = lambda ref: ref if given == "piece" else total
        mapped = purax.shard_map(
            lambda ref, x: pnp.sin(note(seen(ref), x)), mesh=purax.make_mesh((4,), ("i",)),
            in_specs=(purax.P("i"), purax.P("i")), out_specs=purax.P("i"),
        )  # fmt: skip
    derivative = outer(grad(lambda x, ref: mapped(ref, x).sum()))
    for times in (1, 2):
        np.testing.assert_allclose(derivative(x, rows), np.cos(x), rtol=1e-6)
        np.testing.assert_allclose(rows[...], 0 * x if given == "captured" else times * np.cos(x), rtol=1e-6)
        np.testing.assert_allclose(total[...], times * np.cos(x).sum() * (given == "captured"), rtol=1e-5)


@pytest.mark.devices
def test_lanes_of_pmap_have_their_rows_of_references():
    rows, total, read = purax.new_ref(pnp.zeros((2, 4))), purax.new_ref(0.0), purax.new_ref(10.0)

    def fun(row, same, x):
        row[...] += x
        same[...] = lax.psum(x, "i")
        return row[...].sum() + read[...]

    out = purax.pmap(fun, "i", in_axes=(1, None, 0))(rows, total, pnp.arange(4.0))
    np.testing.assert_array_equal(out, 2 * np.arange(4.0) + 10)
    np.testing.assert_array_equal(rows[...], np.tile(np.arange(4.0), (2, 1)))
    assert float(total[...]) == 6
    with pytest.raises(errors.ReferenceUseError, match="each device would write its own"):
        purax.pmap(lambda x: total.__setitem__(..., x), "i")(pnp.arange(4.0))


@pytest.mark.devices
def test_pieces_of_references_are_cut_and_kept_apart_as_arrays_are():
    ref = purax.new_ref(pnp.zeros(6))
    with pytest.raises(ValueError, match="6 is not divisible by 4"):
        on_devices(lambda ref: None, purax.P("i"))(ref)
    with pytest.raises(errors.ReferenceUseError, match="closed over and passed as the argument view"):
        on_devices(lambda view: view.addupdate(ref[...].sum()), purax.P("i"))(ref.at[:4])
    with pytest.raises(errors.ReferenceUseError, match="only one reference"):
        on_devices(lambda a, b: None, purax.P())(ref, ref)
    left = []
    on_devices(left.append, purax.P("i"))(ref.at[:4])
    with pytest.raises(errors.UnexpectedTracerError, match="escaped"):
        left[0][...]


@pytest.mark.devices
def test_pieces_of_references_on_explicit_axes_lie_as_their_arrays():
    mesh = purax.make_mesh((4,), ("i",), axis_types=(purax.sharding.AxisType.Explicit,))
    with purax.set_mesh(mesh):
        ref = purax.new_ref(pnp.zeros(8, out_sharding=purax.P("i")))
        add = purax.shard_map(lambda ref: ref.addupdate(lax.axis_index("i") * 1.0), out_specs=None)
        for run in (add, jit(add)):
            run(ref)
        assert repr(purax.typeof(ref)) == "Ref{float32[8@i]}"
    np.testing.assert_array_equal(ref[...], 2 * np.repeat(np.arange(4.0), 2))
