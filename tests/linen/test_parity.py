# SPDX-License-Identifier: Apache-2.0
"""Parameters, names and outputs equal Flax's for the same keys (numbers written by tools/make_linen_parity.py)."""

import json
import pathlib
import sys

import numpy as np
import pytest

from purax import linen, random, tree
from purax import numpy as pnp

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from parity_cases import models, summary

STORED = json.loads((pathlib.Path(__file__).parent / "parity.json").read_text())["models"]
MODELS = models(linen, pnp)


def check(found, stored):
    assert sorted(found) == sorted(stored)
    for path, (shape, numbers) in stored.items():
        assert found[path][0] == shape, path
        np.testing.assert_allclose(found[path][1], numbers, rtol=2e-4, atol=2e-5, err_msg=path)


@pytest.mark.parametrize("name", sorted(STORED))
def test_init_makes_the_same_variables_and_outputs_as_the_peer(name):
    module, args, kwargs = MODELS[name]
    rngs = {"params": random.key(0), "dropout": random.key(1), "noise": random.key(2)}
    output, variables = module.init_with_output(rngs, *args, **kwargs)
    check(summary(variables, tree.flatten_with_path, np.asarray), STORED[name]["variables"])
    check(summary(output, tree.flatten_with_path, np.asarray), STORED[name]["output"])
