# SPDX-License-Identifier: Apache-2.0
"""The examples at a small size: they run, find something, and leave a picture."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def example(name):
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    yield str(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_double_pendulum_is_fitted(picture):
    result = example("double_pendulum").run(steps=30, samples=12, seconds=0.6, picture=picture)
    assert result.losses[-1] < 0.2 * result.losses[0]
    assert result.misfit < 2


def test_a_hidden_shape_is_found_with_less_memory(picture):
    result = example("wave_inversion").run(steps=40, size=24, times=100, sources=2, picture=picture)
    assert result.losses[-1] < 0.2 * result.losses[0]
    slow = result.true < result.true.max()
    assert result.found[slow].mean() < result.found[~slow].mean() - 10
    plain, saving = result.memory
    assert saving < 0.5 * plain


def test_hamiltonian_monte_carlo_tells_digits_apart(picture):
    result = example("hamiltonian").run(draws=40, warmup=40, chains=2, leaps=8, picture=picture)
    assert result.draws.shape == (2, 40, 66)
    assert 0.3 < result.accepted <= 1
    assert result.accuracy > 0.9
    assert np.isfinite(result.ratio).all()


@pytest.mark.parametrize("name", ["double_pendulum", "wave_inversion", "hamiltonian"])
def test_examples_explain_their_options(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit):
        example(name).main()
    assert "--picture" in capsys.readouterr().out
