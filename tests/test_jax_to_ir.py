# SPDX-License-Identifier: Apache-2.0
"""Functions as HLO modules, from Python and from the command line."""

import numpy as np
import pytest

from purax.tools import jax_to_ir

pytestmark = pytest.mark.xla


def axpy(a, x, y):
    return a * x + y


def test_parameters_stand_in_the_order_given_and_constants_are_computed():
    shapes = [("y", jax_to_ir.parse_shape_str("f32[3]")), ("x", jax_to_ir.parse_shape_str("f32[3]"))]
    proto, text = jax_to_ir.jax_to_hlo(axpy, shapes, {"a": np.float32(7)})
    assert proto and "f32[3]{0} parameter(1)" in text and "constant(7)" in text
    with pytest.raises(ValueError, match="either a shape or a constant"):
        jax_to_ir.jax_to_hlo(axpy, shapes)


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("f32[]", (), "float32"),
        ("pred[2, 3]", (2, 3), "bool"),
        ("bf16[4]", (4,), "bfloat16"),
        ("c64[1]", (1,), "complex64"),
    ],
)
def test_types_are_read_as_hlo_writes_them(text, shape, dtype):
    found = jax_to_ir.parse_shape_str(text)
    assert found.shape == shape and found.dtype.name == dtype


@pytest.mark.parametrize("text", ["foo[]", "f32", "f32[a]", "f32[1"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="Invalid shape"):
        jax_to_ir.parse_shape_str(text)


def test_the_command_line_writes_the_text(tmp_path):
    path = tmp_path / "sine.txt"
    jax_to_ir.main(["--fn", "purax.lax.sin", "--input_shapes", '[("x", "f32[2]")]', "--hlo_text_dest", str(path)])
    assert "sine" in path.read_text()
