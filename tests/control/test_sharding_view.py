# SPDX-License-Identifier: Apache-2.0
"""Placements of arrays, seen from eager code and from inside of programs."""

import numpy as np
import pytest

import purax
from purax import debug, lax
from purax import numpy as pnp
from purax.sharding import AxisType


@pytest.fixture
def mesh():
    return purax.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=purax.devices()[:4])


def seen_by(run):
    """What `inspect_array_sharding` tells while `run(look)` runs."""
    seen = []
    run(lambda x: debug.inspect_array_sharding(x, callback=seen.append))
    return seen


def test_one_device_is_told_eager_compiled_and_under_derivatives():
    for run in (
        lambda look: look(pnp.ones(3)),
        lambda look: purax.jit(lambda x: (look(x), x)[1])(np.ones(3)),
        lambda look: purax.jit(purax.grad(lambda x: (look(x), x * x)[1]))(1.0),
        lambda look: purax.jit(purax.vmap(lambda x: (look(x), x)[1]))(np.ones(3)),
    ):
        (sharding,) = seen_by(run)
        assert len(sharding.device_set) == 1


def test_an_array_that_was_placed_tells_its_sharding(mesh):
    sharding = purax.NamedSharding(mesh, purax.P("y", "x"))
    x = purax.device_put(np.ones((4, 4)), sharding)
    assert seen_by(lambda look: look({"a": x})) == [sharding]


def test_the_partitioner_tells_how_values_of_a_program_lie(mesh):
    spread = purax.NamedSharding(mesh, purax.P("x", "y"))
    x = purax.device_put(np.ones((4, 4)), spread)
    seen = seen_by(lambda look: purax.jit(lambda x: (look(pnp.sin(x)), look(x.T), x)[2])(x))
    assert {s.spec for s in seen} == {purax.P("x", "y"), purax.P("y", "x")}
    assert all(s.mesh == mesh for s in seen)


def test_values_in_loops_are_told_too(mesh):
    x = purax.device_put(np.ones(4), purax.NamedSharding(mesh, purax.P("x")))

    def run(look):
        return purax.jit(lambda x: lax.fori_loop(0, 3, lambda _, y: (look(y), pnp.sin(y))[1], x))(x)

    seen = seen_by(run)
    assert seen and all(s.is_equivalent_to(x.sharding, 1) for s in seen)


def test_a_table_shows_who_holds_what(mesh, capsys):
    x = purax.device_put(np.ones((4, 4)), purax.NamedSharding(mesh, purax.P("x", "y")))
    debug.visualize_array_sharding(x)
    ids = [d.id for d in purax.devices()[:4]]
    lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [line.replace("│", " ").split() for line in lines if "CPU" in line] == [
        ["CPU", f"{ids[0]}", "CPU", f"{ids[1]}"], ["CPU", f"{ids[2]}", "CPU", f"{ids[3]}"],
    ]  # fmt: skip
    debug.visualize_sharding((8,), purax.NamedSharding(mesh, purax.P("x")))
    assert f"CPU {ids[0]},{ids[1]}" in capsys.readouterr().out
    with pytest.raises(ValueError, match="one or two axes"):
        debug.visualize_sharding((2, 2, 2), purax.NamedSharding(mesh, purax.P()))
