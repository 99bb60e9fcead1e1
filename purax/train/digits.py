# SPDX-License-Identifier: Apache-2.0
"""The main job: a small convolutional network that learns to read handwritten digits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, linen, nn, optim, random
from purax import numpy as pnp
from purax.control.jit import jit
from purax.control.staging import eval_shape
from purax.core.aval import ShapeDtypeStruct
from purax.data.batch import batches, number_of_batches, shift_images
from purax.data.source import Digits, load_digits
from purax.errors import CheckpointMismatchError, DTypeError, NonFiniteError, ShapeError
from purax.train.checkpoint import load_params, restore, save
from purax.train.checkpoint.format import read_file
from purax.train.loop import Result, fit
from purax.train.metrics import History, count_correct
from purax.train.state import TrainState
from purax.transforms.grad import value_and_grad

__all__ = [
    "OPTIMIZERS",
    "DigitsModel",
    "Settings",
    "load_model",
    "make_optimizer",
    "predict",
    "save_training",
    "to_pixels",
    "train_digits",
]

_SHAPE = (8, 8, 1)
_CLASSES = 10
_SETTINGS = "purax.settings"


class DigitsModel(linen.Module):
    """Two convolutions, one pooling, two dense layers: images float32[n, 8, 8, 1] to scores float32[n, 10].

    Attributes
    ----------
    features : int
        Channels of the first convolution; the second has twice as many.
    hidden : int
        Units of the first dense layer.
    """

    features: int = 16
    hidden: int = 64

    @linen.compact
    def __call__(self, images: Any) -> Any:
        """Give the scores of images, float32[n, 10]."""
        x = nn.relu(linen.Conv(self.features, (3, 3))(images))
        x = nn.relu(linen.Conv(2 * self.features, (3, 3))(x))
        x = linen.max_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.relu(linen.Dense(self.hidden)(x))
        return linen.Dense(_CLASSES)(x)


OPTIMIZERS: dict[str, tuple[Callable[..., optim.GradientTransformation], float]] = {
    "adam": (optim.adam, 5e-3),
    "adamw": (optim.adamw, 5e-3),
    "sgd": (lambda rate: optim.sgd(rate, momentum=0.9, nesterov=True), 5e-2),
    "rmsprop": (optim.rmsprop, 1e-3),
    "lion": (optim.lion, 1e-3),
}


class Settings(NamedTuple):
    """What a training depends on; `learning_rate` None means the default of the optimizer."""

    epochs: int = 30
    batch_size: int = 64
    seed: int = 0
    optimizer: str = "adam"
    learning_rate: float | None = None


def make_optimizer(settings: Settings, steps: int) -> optim.GradientTransformation:
    """Make the optimizer: clipped gradients, a short warm-up, then a cosine down to a hundredth.

    Parameters
    ----------
    settings : Settings
        Which optimizer, and its learning rate.
    steps : int
        How many steps the whole training has.

    Returns
    -------
    GradientTransformation
        The optimizer.
    """
    make, default_rate = OPTIMIZERS[settings.optimizer]
    rate = default_rate if settings.learning_rate is None else settings.learning_rate
    warmup = min(steps // 10, 50)
    schedule = optim.warmup_cosine_decay_schedule(rate / 10, rate, warmup, max(steps, warmup + 1), rate / 100)
    return optim.chain(optim.clip_by_global_norm(1.0), make(schedule))


def _make_programs(tx: optim.GradientTransformation) -> tuple[Any, Any, Any]:
    """Make the three programs of a training: first state, step, evaluation. Nothing is computed outside them."""
    model = DigitsModel()

    def first_state(seed: Any) -> TrainState:
        params = model.init(random.key(seed), pnp.zeros((1, *_SHAPE)))["params"]
        return TrainState.create(apply_fn=model.apply, params=params, tx=tx)

    def step(state: TrainState, images: Any, labels: Any) -> tuple[TrainState, Any]:
        def loss_of(params: Any) -> Any:
            scores = model.apply({"params": params}, images)
            return pnp.mean(optim.softmax_cross_entropy_with_integer_labels(scores, labels))

        loss, grads = value_and_grad(loss_of)(state.params)
        return state.apply_gradients(grads=grads), loss

    def evaluate(params: Any, images: Any, labels: Any) -> Any:
        return count_correct(model.apply({"params": params}, images), labels)

    return jit(first_state), jit(step), jit(evaluate)


def _augmented_batches(digits: Digits, settings: Settings, epoch: int) -> Iterator[Any]:
    rng = np.random.default_rng([settings.seed, epoch, 1])
    images = shift_images(digits.train_images, rng)
    return batches((images, digits.train_labels), settings.batch_size, seed=settings.seed, epoch=epoch)


def train_digits(
    settings: Settings,
    *,
    resume_from: str | os.PathLike[str] | None = None,
    on_epoch: Callable[[TrainState, History], None] | None = None,
    on_first_loss: Callable[[float], None] | None = None,
    progress: bool = True,
) -> tuple[Result, float]:
    """Train on the digits.

    Parameters
    ----------
    settings : Settings
        What the training depends on; the same settings give the same parameters.
    resume_from : path, optional
        A checkpoint of a training with the same settings, to go on from its last whole epoch. The result is that of
        a training that was never interrupted, bit for bit.
    on_epoch, on_first_loss, progress
        As in `fit`.

    Returns
    -------
    tuple of (Result, float)
        What `fit` gives, and the accuracy on the held-out images, between 0 and 1.

    Raises
    ------
    CheckpointMismatchError
        If the checkpoint is of a training with other settings.
    DamagedFileError
        If the checkpoint is not whole.
    """
    digits = load_digits()
    steps_per_epoch = number_of_batches(len(digits.train_labels), settings.batch_size)
    tx = make_optimizer(settings, settings.epochs * steps_per_epoch)
    first_state, step, evaluate = _make_programs(tx)

    def accuracy_of(state: TrainState) -> float:
        correct = evaluate(state.params, digits.test_images, digits.test_labels)
        return int(correct) / len(digits.test_labels)

    state = first_state(np.uint32(settings.seed))
    if resume_from is not None:
        state = _restored(state, settings, resume_from)
    result = fit(
        state,
        lambda state, batch: step(state, *batch),
        lambda epoch: _augmented_batches(digits, settings, epoch),
        epochs=settings.epochs,
        steps_per_epoch=steps_per_epoch,
        first_epoch=int(state.step) // steps_per_epoch,
        evaluate=lambda state: {"accuracy": accuracy_of(state)},
        on_epoch=on_epoch,
        on_first_loss=on_first_loss,
        progress=progress,
    )
    return result, accuracy_of(result.state)


def save_training(path: str | os.PathLike[str], state: TrainState, settings: Settings) -> None:
    """Save a training so that `train_digits` can go on from it.

    Parameters
    ----------
    path : path
        The file.
    state : TrainState
        At the end of an epoch.
    settings : Settings
        What the training depends on.
    """
    save(path, state, {_SETTINGS: json.dumps(settings._asdict())})


def _restored(state: TrainState, settings: Settings, path: str | os.PathLike[str]) -> TrainState:
    text = read_file(path)[1].get(_SETTINGS, "{}")
    saved, wanted = json.loads(text), settings._asdict()
    different = [
        f"{name} was {saved.get(name)}, now {value}" for name, value in wanted.items() if saved.get(name) != value
    ]
    if different:
        raise CheckpointMismatchError(f"{path} is of a training with other settings: {'; '.join(different)}")
    restored: TrainState = restore(path, state)
    return restored


def load_model(path: str) -> tuple[Any, dict[str, str]]:
    """Load the parameters that `purax train digits` saved.

    Parameters
    ----------
    path : str
        A safetensors file.

    Returns
    -------
    tuple of (nested dict of arrays, dict from str to str)
        The parameters and what the file says about itself.

    Raises
    ------
    CheckpointMismatchError
        If the file holds another model.
    DamagedFileError
        If the file is not whole.
    """
    params, metadata = load_params(path)
    try:
        model = _model_of(params)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise CheckpointMismatchError(
            f"{path} does not hold a model of digits (Conv_0, Conv_1, Dense_0, Dense_1); "
            "make one by `purax train digits`"
        ) from None
    wanted = eval_shape(model.init, random.key(0), ShapeDtypeStruct((1, *_SHAPE), np.float32))
    return load_params(path, wanted["params"])[0], metadata


def _model_of(params: Any) -> DigitsModel:
    """The model that parameters belong to, by the sizes of two of them."""
    return DigitsModel(features=params["Conv_0"]["kernel"].shape[3], hidden=params["Dense_0"]["kernel"].shape[1])


def predict(params: Any, images: Any) -> np.ndarray:
    """Give the probability of each digit for each image.

    Parameters
    ----------
    params : nested dict of arrays
        From `load_model`.
    images : array [n, 8, 8], [n, 8, 8, 1], [8, 8, 1] or [8, 8]
        Pixels from 0 to 1, or integers from 0 to 16 as in the source of the data.

    Returns
    -------
    float32[n, 10]
        Each row sums to 1.

    Raises
    ------
    ShapeError, DTypeError, NonFiniteError
        If the images are none, as `to_pixels` says.
    """
    model = _model_of(params)

    @jit
    def probabilities(params: Any, images: Any) -> Any:
        return nn.softmax(model.apply({"params": params}, images))

    images = to_pixels(images)
    if not len(images):
        return np.zeros((0, _CLASSES), np.float32)
    return np.asarray(probabilities(params, images[..., None]))


def to_pixels(images: Any) -> np.ndarray:
    """Bring images into the form that the model was trained on.

    Parameters
    ----------
    images : array [n, 8, 8], [n, 8, 8, 1], [8, 8, 1] or [8, 8]
        Pixels from 0 to 1, or integers from 0 to 16 as in the source of the data.

    Returns
    -------
    float32[n, 8, 8]
        Pixels from 0 to 1.

    Raises
    ------
    ShapeError
        If the images are not 8 x 8.
    DTypeError
        If they are not real numbers.
    NonFiniteError
        If a pixel is NaN or infinite.
    """
    images = np.asarray(images)
    given = images.shape
    if images.shape[-3:] == _SHAPE and images.ndim in (3, 4):
        images = images[..., 0]
    if images.ndim == 2:
        images = images[None]
    if images.ndim != 3 or images.shape[1:] != _SHAPE[:2]:
        raise ShapeError(f"images must be 8 x 8 pixels ([n, 8, 8] or [8, 8]), got an array of shape {given}")
    if not (dtypes.issubdtype(images.dtype, np.floating) or images.dtype.kind in "iu"):
        raise DTypeError(f"images must be real numbers, got dtype {images.dtype}")
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is told below
        pixels = images.astype(np.float32) / np.float32(16 if images.dtype.kind in "iu" else 1)
    finite = np.isfinite(pixels).all(axis=(1, 2))
    if not finite.all():
        raise NonFiniteError(
            f"images must be finite, and image {int(np.argmin(finite))} holds a pixel that is NaN or infinite"
        )
    return pixels
