# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp
from purax.optim import projections as p

VECTOR = {"a": np.array([1.0, -2.0, 0.5], np.float32), "b": np.array([[3.0], [-0.25]], np.float32)}
NORMAL = {"a": np.array([0.5, 1.0, -1.0], np.float32), "b": np.array([[2.0], [1.0]], np.float32)}


def flat(values):
    return np.concatenate([np.ravel(np.asarray(values["a"])), np.ravel(np.asarray(values["b"]))])


SETS = {
    "box": (lambda x: p.projection_box(x, -1.0, 2.0), lambda v: np.all((v >= -1) & (v <= 2))),
    "simplex": (lambda x: p.projection_simplex(x, 2.0), lambda v: np.all(v >= 0) and abs(v.sum() - 2) < 1e-5),
    "l1": (lambda x: p.projection_l1_ball(x, 2.0), lambda v: np.abs(v).sum() <= 2 + 1e-5),
    "l2": (lambda x: p.projection_l2_ball(x, 2.0), lambda v: np.linalg.norm(v) <= 2 + 1e-5),
    "halfspace": (lambda x: p.projection_halfspace(x, NORMAL, 1.0), lambda v: flat(NORMAL) @ v <= 1 + 1e-5),
    "non_negative": (p.projection_non_negative, lambda v: np.all(v >= 0)),
}


@pytest.mark.parametrize("name", SETS)
def test_a_projection_is_in_its_set_and_no_other_point_of_the_set_is_nearer(name):
    project, inside = SETS[name]
    rng = np.random.default_rng(0)
    point = flat(VECTOR)
    nearest = flat(project({key: pnp.asarray(value) for key, value in VECTOR.items()}))
    assert inside(nearest)
    for _ in range(20):
        other = rng.normal(size=5).astype(np.float32) * 2
        tried = flat(project({"a": pnp.asarray(other[:3]), "b": pnp.asarray(other[3:].reshape(2, 1))}))
        assert np.linalg.norm(point - nearest) <= np.linalg.norm(point - tried) + 1e-5


@pytest.mark.parametrize("name", SETS)
def test_a_point_of_the_set_stays_where_it_is(name):
    project, _ = SETS[name]
    once = project({key: pnp.asarray(value) for key, value in VECTOR.items()})
    np.testing.assert_allclose(flat(project(once)), flat(once), atol=1e-6)
