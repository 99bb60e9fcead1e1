# SPDX-License-Identifier: Apache-2.0
"""Prints and callbacks that look into programs."""

import io
import logging

import numpy as np
import pytest

import purax
import purax.numpy as pnp
from purax import debug, errors, lax, random

eager_and_compiled = pytest.mark.parametrize("transform", [lambda f: f, purax.jit], ids=["eager", "jit"])


@eager_and_compiled
def test_fields_are_filled_in_as_str_format_does(transform, capsys):
    def f(x, y):
        debug.print("{} {:.2f} {x[a]} {y:>8.1e}|", x, y, x={"a": x + 1}, y=y)
        debug.print("no fields, {{braces}}")

    transform(f)(3, 0.5)
    assert capsys.readouterr().out == "3 0.50 4  5.0e-01|\nno fields, {braces}\n"


@eager_and_compiled
def test_arrays_print_as_numpy_prints_them_under_its_options(transform, capsys):
    with np.printoptions(precision=2):
        transform(lambda x: debug.print("{}", x))(np.array([1 / 3, 2 / 3], np.float32))
    assert capsys.readouterr().out == "[0.33 0.67]\n"


@eager_and_compiled
def test_static_arguments_and_keys_can_be_printed(transform, capsys):
    transform(lambda x: debug.print("{} {} {}", x, x.dtype, "text"))(np.int32(1))
    transform(lambda k: debug.print("{}", k))(random.key(0))
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "1 int32 text" and len(out) > 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: debug.print("{x}", x),
            KeyError,
            r"the text '\{x\}' .*test_debugging.py(.|\n)*no argument for the field \{x\}",
        ),
        (lambda x: debug.print("{}", x=x), IndexError, "more fields without a name"),
        (lambda x: debug.print("text", x), ValueError, "Unused positional arguments"),
        (lambda x: debug.print("{x}", x=x, y=x), ValueError, "Unused keyword arguments"),
        (lambda x: debug.print(f"{x}", x=x), ValueError, "You may be passing an f-string"),
        (lambda x: debug.print("{"), ValueError, "encountered in format"),
        (lambda x: debug.print(ordered=True, a=1)("{a}"), TypeError, "two-call form"),
        (lambda x: debug.callback(None, 1)(print), TypeError, "two-call form"),
        (lambda x: debug.callback("text"), TypeError, "callable"),
    ],
)
@eager_and_compiled
def test_mistakes_are_found_where_the_call_is_written(call, error, message, transform):
    with pytest.raises(error, match=message):
        transform(call)(1.0)


@eager_and_compiled
def test_a_value_that_its_field_cannot_write_names_the_text(transform):
    with pytest.raises((errors.TextFieldError, errors.JaxRuntimeError), match=r"the text 'x is \{:d\}'.*format code"):
        transform(lambda x: debug.print("x is {:d}", x))(1.5)


def test_options_may_come_first(capsys):
    debug.print(ordered=True)("{x}", x=1)
    seen = []
    debug.callback(ordered=True)(seen.append, 2)
    assert capsys.readouterr().out == "1\n" and seen == [2]


@eager_and_compiled
def test_a_callback_is_called_though_nothing_is_returned(transform):
    seen = []
    transform(lambda x, *, k: debug.callback(lambda *a, **k: seen.append((a, k)), x, "static", k=k))(1.0, k=2)
    ((values, named),) = seen
    assert values[0] == 1 and values[1] == "static" and named["k"] == 2


@eager_and_compiled
def test_prints_in_order_through_loops_and_branches(transform, capsys):
    def f(n):
        def body(c, i):
            debug.print("i={i}", i=i, ordered=True)
            lax.cond(i % 2 == 0, lambda: debug.print("even", ordered=True), lambda: debug.print("odd", ordered=True))
            return c + i, None

        total, _ = lax.scan(body, 0, pnp.arange(3))
        debug.print("{} {}", n, total, ordered=True)

    transform(f)(7)
    assert capsys.readouterr().out.split("\n") == ["i=0", "even", "i=1", "odd", "i=2", "even", "7 3", ""]


def test_derivatives_print_values_once(capsys):
    def f(x):
        debug.print("{}", x)
        return x * x

    for derivative in (
        purax.grad(f),
        purax.jit(purax.grad(f)),
        purax.grad(purax.jit(f)),
        lambda x: purax.jvp(f, (x,), (x,)),
    ):
        derivative(3.0)
        assert capsys.readouterr().out == "3.0\n"
    purax.vjp(f, 3.0)
    assert capsys.readouterr().out == "3.0\n"


def test_a_backward_rule_prints_its_cotangent(capsys):
    @purax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, ct: (debug.print("ct {}", ct), (ct,))[1])
    purax.grad(lambda x: 3 * f(x))(1.0)
    purax.jit(purax.grad(lambda x: 3 * f(x)))(1.0)
    assert capsys.readouterr().out == "ct 3.0\n" * 2


@pytest.mark.parametrize("ordered", [False, True])
@eager_and_compiled
def test_vmap_prints_each_lane_in_order(transform, ordered, capsys):
    f = purax.vmap(purax.vmap(lambda x, y: debug.print("{} {}", x, y, ordered=ordered), (0, None)), (0, 1))
    transform(f)(np.arange(4).reshape(2, 2), np.arange(2)[None])
    assert capsys.readouterr().out == "0 [0]\n1 [0]\n2 [1]\n3 [1]\n"


@pytest.mark.parametrize("policy", [None, "everything_saveable", "nothing_saveable"])
@pytest.mark.parametrize("transform", [lambda f: f, purax.jit], ids=["eager", "jit"])
def test_checkpointing_does_not_print_again(transform, policy, capsys):
    def body(c, i):
        debug.print("{}", i)
        return pnp.sin(c), None

    def f(x):
        debug.print("first")
        return lax.scan(
            body, lax.cond(x > 0, lambda: (debug.print("branch"), pnp.exp(x))[1], lambda: x), pnp.arange(2)
        )[0]

    chosen = None if policy is None else getattr(purax.checkpoint_policies, policy)
    g = transform(purax.grad(purax.checkpoint(f, policy=chosen)))
    np.testing.assert_allclose(g(1.0), purax.grad(f)(1.0), rtol=1e-6)
    assert capsys.readouterr().out == "first\nbranch\n0\n1\n" * 2


def test_what_a_callback_raises_is_the_cause():
    def fail(x):
        raise LookupError("out of tea")

    with pytest.raises(LookupError):
        debug.callback(fail, 1)
    with pytest.raises(errors.JaxRuntimeError, match=r"debug.callback failed: LookupError: out of tea") as caught:
        purax.jit(lambda x: debug.callback(fail, x))(1)
    assert type(caught.value.__cause__) is LookupError


def test_log_goes_to_the_logger(caplog):
    with caplog.at_level(logging.DEBUG, "purax.debug"):
        purax.jit(lambda x: debug.log("x={}", x * x))(2)
        debug.log("{} %", 1, level=logging.WARNING)
    assert [(r.levelno, r.message) for r in caplog.records] == [(logging.DEBUG, "x=4"), (logging.WARNING, "1 %")]


def test_every_device_of_pmap_prints(capsys):
    purax.pmap(lambda x: debug.print("{}", x))(np.arange(4))
    assert sorted(capsys.readouterr().out.split()) == ["0", "1", "2", "3"]


def test_a_partitioned_print_shows_the_piece_of_each_device(capsys):
    mesh = purax.make_mesh((2,), ("x",), devices=purax.devices()[:2])
    x = purax.device_put(np.arange(4), purax.NamedSharding(mesh, purax.P("x")))
    purax.jit(lambda x: debug.print("{}", x, partitioned=True))(x)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0 1]", "[2 3]"]
    purax.jit(lambda x: debug.print("{}", x))(x)
    assert capsys.readouterr().out == "[0 1 2 3]\n"


def test_a_donated_argument_can_be_printed(capsys):
    f = purax.jit(lambda x: (debug.print("{}", x), x + 1)[1], donate_argnums=0)
    f(pnp.zeros(2))
    assert capsys.readouterr().out == "[0. 0.]\n"


def test_many_programs_with_callbacks_that_compute_do_not_wait_for_each_other():
    equal = []

    def step(state):
        i, x = state
        debug.callback(lambda i, n: equal.append(bool(i == n)), i, 20)
        return i + 1, x + 1

    run = lambda x: lax.while_loop(lambda s: s[0] < 20, step, (0, x))[1]
    total = sum(run(x) for x in pnp.ones((10, 64, 64)))
    purax.block_until_ready(total)
    assert len(equal) == 200 and not any(equal)


# --- stopping a program


def stopped(f, *commands):
    """What the debugger says to these commands; `f(options)` calls it."""
    stdin, stdout = io.StringIO("".join(f"{c}\n" for c in commands)), io.StringIO()
    f({"stdin": stdin, "stdout": stdout})
    return stdout.getvalue().replace("(jdb) ", "").splitlines()[1:]


@eager_and_compiled
def test_a_breakpoint_shows_values_of_the_run_and_goes_on(transform):
    done = []

    def program(options):
        def inner(y):
            z = y + 1
            debug.breakpoint(**options)
            return z

        def outer(x):
            return inner(x * 2)

        done.append(transform(outer)(pnp.float32(3)))

    says = stopped(program, "p y, z", "z + 1", "nonsense", "up", "p x", "d", "d", "bt", "l", "c")
    assert says[0] == "(Array(6., dtype=float32), Array(7., dtype=float32))" and says[1] == "Array(8., dtype=float32)"
    assert says[2].startswith("*** NameError")
    assert any(line.endswith("in inner") for line in says) and any(line.endswith("in outer") for line in says)
    assert "Array(3., dtype=float32)" in says
    assert any(line.startswith("->") for line in says)
    shown = [line[10:].strip() for line in says[[i for i, line in enumerate(says) if line.startswith("> ")][-1] + 1 :]]
    assert shown == [
        "def inner(y):",
        "z = y + 1",
        "debug.breakpoint(**options)",
        "return z",
        "",
    ]  # the function, no more
    assert done == [7]


@eager_and_compiled
def test_quitting_a_breakpoint_ends_the_program(transform):
    for commands in (["q"], []):
        with pytest.raises(SystemExit):
            stopped(lambda options: transform(lambda x: (debug.breakpoint(**options), x)[1])(1.0), *commands)
