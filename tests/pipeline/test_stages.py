# SPDX-License-Identifier: Apache-2.0
"""The stages of `jit`: traced, lowered, compiled."""

import numpy as np
import pytest

import purax
from purax import events
from purax import numpy as pnp


def model(params, x, n=2, *, scale):
    return {"y": pnp.sin(params["w"] * x) * n * scale}


FUN = purax.jit(model, static_argnums=2, donate_argnums=1)
ARGS = ({"w": purax.ShapeDtypeStruct((3,), np.float32)}, purax.ShapeDtypeStruct((3,), np.float32), 4)


def test_each_stage_tells_types_and_structures():
    traced = FUN.trace(*ARGS, scale=2.0)
    for stage in (traced, traced.lower(), traced.lower().compile()):
        assert stage.out_info["y"].shape == (3,) and stage.in_tree.num_leaves == 3
        (params, x), keywords = stage.args_info  # without static arguments
        assert x.donated and not params["w"].donated and keywords["scale"].shape == ()
        assert stage.out_tree.num_leaves == 1
    assert traced.fun_name == "model" and "sin" in str(traced.jaxpr) and not traced.effects
    assert traced.lower().donate_argnums == (1,)


def test_the_lowered_text_is_stablehlo():
    lowered = purax.jit(pnp.sin).lower(purax.ShapeDtypeStruct((3,), np.float32))
    assert "stablehlo.sine" in lowered.as_text() and "loc(" not in lowered.as_text()
    assert "loc(" in lowered.as_text(debug_info=True)
    assert "sine" in lowered.compiler_ir("hlo").as_hlo_text() and "stablehlo" in str(lowered.compiler_ir())
    with pytest.raises(ValueError, match="unknown dialect"):
        lowered.as_text("mhlo")


def test_a_compiled_program_runs_on_its_types_only():
    compiled = purax.jit(model, static_argnums=2).lower(*ARGS, scale=2.0).compile()
    x = np.array([0.1, 0.2, 0.3], np.float32)
    np.testing.assert_allclose(compiled({"w": x}, x, scale=2.0)["y"], np.sin(x * x) * 8, rtol=1e-6)
    with pytest.raises(TypeError, match="input pytree"):
        compiled(x, x, scale=2.0)
    with pytest.raises(TypeError, match=r"params\['w'\].*compiled with float32\[3\] and called with float32\[2\]"):
        compiled({"w": x[:2]}, x, scale=2.0)
    with pytest.raises(TypeError, match="Cannot apply JAX transformations"):
        purax.grad(lambda x: compiled({"w": x}, x, scale=2.0)["y"].sum())(x)


def test_a_compiled_program_tells_what_it_costs():
    compiled = purax.jit(lambda x: x @ x).lower(pnp.ones((8, 8))).compile()
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 256
    assert "HloModule" in compiled.as_text() and compiled.runtime_executable() is not None


def test_captured_arrays_and_float0_go_along():
    table = pnp.arange(3.0)
    compiled = purax.jit(lambda x, z: (x + table, z)).lower(1.0, np.zeros(2, purax.float0)).compile()
    out, zeros = compiled(2.0, np.zeros(2, purax.float0))
    np.testing.assert_array_equal(out, [2, 3, 4])
    assert zeros.dtype == purax.float0


def test_options_reach_the_compiler():
    lowered = purax.jit(lambda x: x * 2.0).lower(1.0)
    assert float(lowered.compile({"xla_cpu_enable_fast_math": False})(2.0)) == 4
    with pytest.raises(purax.errors.JaxRuntimeError):
        lowered.compile({"no_such_flag": True})(2.0)


def test_the_text_tells_paths_of_arguments_and_results():
    def function(x, d, *rest, k):
        return {"a": x + d["w"], "b": (rest[0] * 2, k)}

    lowered = purax.jit(function).lower(1.0, {"w": 2.0, "unused": 3.0}, 4.0, k=5.0)
    text = lowered.as_text(debug_info=True)
    head = next(line for line in text.splitlines() if "@main" in line)
    for number, path in enumerate(("x", "d['w']", "rest[0]", "k")):
        assert f'%arg{number}: tensor<f32> loc("{path}")' in head
    for path in ("result['a']", "result['b'][0]", "result['b'][1]"):
        assert f'jax.result_info = "{path}"' in head and path in lowered.as_text()
    assert "rest[0]" not in lowered.as_text()
    assert "op_name=\"d[\\'w\\']\"" in lowered.compile().as_text()


def test_paths_are_written_as_strings_of_mlir():
    lowered = purax.jit(lambda x: {'q"\\\n': x['q"\\\n'] + 1}).lower({'q"\\\n': 1.0})
    assert "loc(" not in lowered.as_text()
    assert lowered.compile()({'q"\\\n': 1.0})['q"\\\n'] == 2


def test_equal_programs_with_other_names_are_compiled_once():
    seen = []
    purax.jit(lambda apple, pear: {"a": apple * 3.25 - pear}).lower(1.0, 2.0).compile()
    with events.listen(seen.append):
        purax.jit(lambda cat, dog: [cat * 3.25 - dog]).lower(1.0, 2.0).compile()
        purax.jit(lambda x, y: x * 3.25 - y)(1.0, 2.0)
    assert not [e for e in seen if isinstance(e, events.Compiled)]


def test_what_is_not_needed_is_not_lowered():
    def function(x, y, z):
        inner = purax.jit(lambda a, b: (pnp.sin(a), pnp.cos(b), pnp.tan(a)))(x, y)
        total = purax.lax.scan(lambda c, _: ((c[0] + x, c[1] * z), None), (x, z), None, length=3)[0]
        pnp.exp(z)
        return inner[0] + total[0]

    text = purax.jit(function).lower(1.0, 2.0, 3.0).as_text()
    assert "@main(%arg0: tensor<f32>)" in text and "stablehlo.sine" in text
    assert not any(f"stablehlo.{name}" in text for name in ("cosine", "tan", "exponential", "multiply"))
    kept = purax.jit(function, keep_unused=True).lower(1.0, 2.0, 3.0)
    assert "@main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>)" in kept.as_text()
    assert abs(kept.compile()(1.0, 2.0, 3.0) - np.sin(1) - 4) < 1e-6


def test_effects_keep_what_they_need(capsys):
    def function(x, y):
        purax.debug.print("y is {}", y * 2)
        return x

    compiled = purax.jit(function).lower(1.0, 2.0).compile()
    assert compiled(1.0, 2.0) == 1 and capsys.readouterr().out == "y is 4.0\n"
