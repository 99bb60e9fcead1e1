# SPDX-License-Identifier: Apache-2.0
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from purax import numpy as pnp
from purax import optim, random, tree
from purax.errors import CheckpointMismatchError, DamagedFileError
from purax.train import TrainState
from purax.train.checkpoint import format as file_format
from purax.train.checkpoint import from_bytes, load_params, restore, save, save_params, to_bytes


def same(left, right):
    assert tree.structure(left) == tree.structure(right)
    for a, b in zip(tree.leaves(left), tree.leaves(right), strict=True):
        assert type(a) is type(b)
        if hasattr(a, "dtype"):
            assert a.dtype == b.dtype
            a, b = (random.key_data(x) if not isinstance(x.dtype, np.dtype) else x for x in (a, b))
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def trained(optimizer):
    params = {"w": pnp.asarray([1.0, 2.0]), "b": pnp.asarray(0.5)}
    state = optimizer.init(params)
    for _ in range(2):
        _, state = optimizer.update(params, state, params)
    return params, state


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.adam(0.1),
        lambda: optim.adamw(optim.linear_schedule(0.1, 0.0, 5), mu_dtype=pnp.bfloat16),
        lambda: optim.partition({"x": optim.adam(0.1), "y": optim.sgd(0.1, 0.9)}, {"w": "x", "b": "y"}),
        lambda: optim.inject_hyperparams(optim.adam)(0.1),
        lambda: optim.MultiSteps(optim.sm3(0.1), 2).gradient_transformation(),
        lambda: optim.noisy_sgd(0.1, key=3),
    ],
)
def test_the_state_of_an_optimizer_to_bytes_and_back_keeps_types_names_and_values(make):
    optimizer = make()
    params, state = trained(optimizer)
    back = from_bytes(optimizer.init(params), to_bytes(state))
    same(back, state)
    assert type(back[0]) is type(state[0])


def test_a_training_state_goes_on_after_a_restore_as_if_nothing_had_happened(tmp_path):
    def advance(state):
        return state.apply_gradients(grads=state.params)

    start = TrainState.create(apply_fn=None, params={"w": pnp.ones(3)}, tx=optim.adam(0.1))
    middle = advance(start)
    save(tmp_path / "deep" / "state.safetensors", middle)
    same(advance(restore(tmp_path / "deep" / "state.safetensors", start)), advance(middle))


def test_values_of_all_kinds_come_back_as_they_were():
    value = {
        "python": [True, 3, 0.5, 1 + 2j],
        "numpy": (np.arange(3), np.float64(1.5), np.zeros((0, 2), np.int8)),
        "half": pnp.ones(2, pnp.bfloat16),
        "complex": np.asarray([1 + 1j], np.complex128),
        "tiny": np.asarray([0.5, 1], ml_dtypes.float8_e4m3fn),
        "key": random.key(7),
        "none": None,
        "scalar": pnp.asarray(2.0),
        "a.b": pnp.zeros(1),
        "a": {"b": pnp.ones(1)},
    }
    same(from_bytes(value, to_bytes(value)), value)


def test_a_restore_of_another_structure_lists_the_differences():
    saved = to_bytes({"l0": pnp.zeros((1,)), "l1": pnp.zeros((2, 3))})
    with pytest.raises(CheckpointMismatchError) as caught:
        from_bytes({"l0": pnp.zeros((3,)), "l2": pnp.zeros(())}, saved)
    message = str(caught.value)
    assert "! l0: saved as float32[1], the target has float32[3]" in message
    assert "- l1: saved as float32[2,3], the target has no such value" in message
    assert "+ l2: not saved, the target has float32[]" in message


@pytest.mark.parametrize(
    ("saved", "target"),
    [
        ({"l0": pnp.zeros(2), "l1": pnp.zeros(2)}, {"l0": pnp.zeros(2)}),
        ({"w": pnp.zeros((1,))}, {"w": pnp.zeros((3,))}),
        ({"w": pnp.zeros(2)}, {"w": pnp.zeros(2, pnp.bfloat16)}),
        ([pnp.zeros(2)], (pnp.zeros(2),)),
        (optim.EmptyState(), None),
        ((optim.EmptyState(),), ()),
        ({"w": 1}, {"w": 1.0}),
    ],
)
def test_a_restore_that_does_not_fit_is_refused(saved, target):
    with pytest.raises(CheckpointMismatchError, match="does not fit the target"):
        from_bytes(target, to_bytes(saved))


def test_what_is_no_value_cannot_be_saved():
    with pytest.raises(TypeError, match="not str"):
        to_bytes({"name": "text"})


def test_any_damage_to_a_file_is_found(tmp_path):
    path = tmp_path / "x.safetensors"
    save(path, {"w": pnp.arange(8.0)})
    data = path.read_bytes()
    for broken in (b"", data[:5], data[:-3], data[:40], b"\xff" * 100, data[:-1] + bytes([data[-1] ^ 1])):
        path.write_bytes(broken)
        with pytest.raises(DamagedFileError, match=r"x\.safetensors"):
            restore(path, {"w": pnp.zeros(8)})


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    save(path, {"w": pnp.ones(2)})
    before = path.read_bytes()

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(file_format.os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        save(path, {"w": pnp.zeros(2)})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


def test_parameters_are_plain_safetensors_for_other_readers_and_writers(tmp_path):
    path = tmp_path / "p.safetensors"
    params = {"dense": {"kernel": pnp.ones((2, 3)), "bias": pnp.zeros(3)}, "scale": pnp.asarray(2.0)}
    save_params(path, params, {"accuracy": "0.99"})
    foreign = safetensors.numpy.load_file(path)
    assert sorted(foreign) == ["dense.bias", "dense.kernel", "scale"]
    back, metadata = load_params(path, target=params)
    same(back, params)
    assert metadata == {"accuracy": "0.99"}
    safetensors.numpy.save_file({"a.b": np.ones(2, np.float32), "c": np.zeros(1, np.int32)}, path)
    loaded, metadata = load_params(path)
    same(loaded, {"a": {"b": pnp.ones(2)}, "c": pnp.zeros(1, pnp.int32)})
    assert metadata == {}
    with pytest.raises(CheckpointMismatchError, match="c: saved as int32"):
        load_params(path, target={"a": {"b": pnp.ones(2)}})


def test_names_that_could_not_be_taken_apart_are_refused(tmp_path):
    with pytest.raises(ValueError, match="holds a dot"):
        save_params(tmp_path / "p.safetensors", {"a.b": pnp.ones(1)})


def test_the_header_names_types_for_people_who_look_inside(tmp_path):
    data = to_bytes({"opt": optim.adam(0.1).init(pnp.ones(2))})
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    structure = json.loads(header["__metadata__"]["purax.structure"])
    assert structure["opt.0()"] == "ScaleByAdamState"
    assert structure["opt.0.count"] == "int32[]"
