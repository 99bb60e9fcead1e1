# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import tree
from purax.data import load_digits
from purax.errors import CheckpointMismatchError, DTypeError, NonFiniteError, ShapeError
from purax.train import checkpoint
from purax.train.digits import Settings, load_model, predict, save_training, train_digits


@pytest.fixture(scope="module")
def trained():
    return train_digits(Settings(epochs=6, seed=1), progress=False)


def test_six_epochs_read_most_digits_and_the_loss_falls(trained):
    result, accuracy = trained
    assert accuracy > 0.9
    assert np.mean(result.history.losses[-10:]) < 0.3 * np.mean(result.history.losses[:5])
    assert result.history.epochs[-1]["accuracy"] == accuracy


def test_the_same_seed_gives_the_same_training_and_another_seed_another():
    losses = [
        train_digits(Settings(epochs=1, seed=seed, batch_size=256), progress=False)[0].history.losses
        for seed in (0, 0, 1)
    ]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_saved_parameters_label_images_of_any_usual_form(trained, tmp_path):
    result, accuracy = trained
    path = tmp_path / "params.safetensors"
    checkpoint.save_params(path, result.state.params, {"model": "purax digits"})
    params, metadata = load_model(str(path))
    assert metadata["model"] == "purax digits"
    digits = load_digits()
    rows = predict(params, digits.test_images)
    np.testing.assert_allclose(rows.sum(axis=-1), 1.0, rtol=1e-5)
    assert np.mean(rows.argmax(-1) == digits.test_labels) == pytest.approx(accuracy)
    sixteenths = np.round(digits.test_images[..., 0] * 16).astype(np.uint8)
    np.testing.assert_allclose(predict(params, sixteenths), rows, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(predict(params, sixteenths[0]), rows[:1], rtol=1e-4, atol=1e-6)
    with pytest.raises(ShapeError, match=r"8 x 8 pixels .* shape \(28, 28\)"):
        predict(params, np.zeros((28, 28)))
    for wrong in (np.full((8, 8), "x"), np.ones((8, 8), complex), np.ones((8, 8), bool), np.ones((8, 8), "m8[s]")):
        with pytest.raises(DTypeError, match="must be real numbers"):
            predict(params, wrong)
    for wrong in (np.nan, np.inf, 1e300):
        with pytest.raises(NonFiniteError, match="image 1 holds"):
            predict(params, np.stack([np.zeros((8, 8)), np.full((8, 8), wrong)]))
    assert predict(params, np.zeros((0, 8, 8))).shape == (0, 10)


def test_a_file_of_another_model_is_refused(trained, tmp_path):
    params = trained[0].state.params
    narrow = {**params, "Dense_1": {"kernel": np.ones((64, 9), np.float32), "bias": np.ones(9, np.float32)}}
    for wrong in (narrow, tree.map(lambda x: np.asarray(x).view(np.int32), params), {"a": np.zeros(2)}):
        checkpoint.save_params(tmp_path / "params.safetensors", wrong)
        with pytest.raises(CheckpointMismatchError):
            load_model(str(tmp_path / "params.safetensors"))


def test_a_resumed_training_ends_where_an_uninterrupted_one_ends_bit_for_bit(tmp_path):
    settings = Settings(epochs=3, batch_size=256)
    path = tmp_path / "checkpoint.safetensors"

    def stop_after_the_second(state, history):
        save_training(path, state, settings)
        if len(history.epochs) == 2:
            raise KeyboardInterrupt

    whole, _ = train_digits(settings, progress=False)
    part, _ = train_digits(settings, on_epoch=stop_after_the_second, progress=False)
    assert part.interrupted
    rest, _ = train_digits(settings, resume_from=path, progress=False)
    assert rest.history.losses == whole.history.losses[-5:]
    for left, right in zip(tree.leaves(rest.state.params), tree.leaves(whole.state.params), strict=True):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_parameters_of_another_model_are_refused(tmp_path):
    checkpoint.save_params(tmp_path / "other.safetensors", {"Dense_0": {"kernel": np.zeros((2, 2), np.float32)}})
    with pytest.raises(CheckpointMismatchError, match="does not hold a model of digits"):
        load_model(str(tmp_path / "other.safetensors"))
