# SPDX-License-Identifier: Apache-2.0
"""The command line: `purax train digits`, `purax predict`, `purax doctor`, `purax cache`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from purax import interrupts
from purax.errors import PuraxError
from purax.lazy import lazy

__all__ = ["main"]

# Each command loads only what it needs.
_train = lazy("purax.cli.train")
_predict = lazy("purax.cli.predict")
_doctor = lazy("purax.cli.doctor")
_cache = lazy("purax.cli.cache")

_OPTIMIZERS = ("adam", "adamw", "lion", "rmsprop", "sgd")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 4294967295")
    return value


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="purax", description="Train models, use them, and look after purax.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train a model on data that come with purax")
    train.add_argument("task", choices=["digits"], help="handwritten digits, 8 x 8 pixels")
    train.add_argument("--epochs", type=_positive, default=30, help="times through the data (default: %(default)s)")
    train.add_argument("--batch-size", type=_positive, default=64, help="images in a step (default: %(default)s)")
    train.add_argument("--seed", type=_seed, default=0, help="of everything random (default: %(default)s)")
    train.add_argument("--optimizer", choices=_OPTIMIZERS, default="adam", help="default: %(default)s")
    train.add_argument("--learning-rate", type=_rate, help="default: what suits the optimizer")
    train.add_argument("--out", default="digits", metavar="DIR", help="where files go (default: ./%(default)s)")
    train.add_argument("--resume", action="store_true", help="go on from DIR/checkpoint.safetensors after Ctrl-C")
    train.add_argument("--no-picture", action="store_true", help="do not draw the loss curve")
    train.add_argument("--quiet", action="store_true", help="no progress bar")

    predict = commands.add_parser("predict", help="label images with a trained model")
    predict.add_argument("model", metavar="FILE.safetensors", help="what `purax train digits` saved")
    predict.add_argument(
        "images", nargs="?", metavar="IMAGES.npy", help="an array [n, 8, 8]; the held-out images if left out"
    )
    predict.add_argument(
        "--index",
        type=int,
        action="append",
        metavar="N",
        help="which images (may be repeated; default: the first five)",
    )
    predict.add_argument("--all", action="store_true", help="all images, one label a line and no pictures")

    commands.add_parser("doctor", help="say what is in use, and what is missing")

    cache = commands.add_parser("cache", help="look at the compiled programs on disk, or remove them")
    cache.add_argument("action", choices=["info", "clear"])
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after `purax`; those of the process if left out.

    Returns
    -------
    int
        0 if all went well, 1 after an error that was explained, 130 after Ctrl-C.
    """
    try:
        interrupts.command_starts()
        options = _parser().parse_args(arguments)
        command = {"train": _train, "predict": _predict, "doctor": _doctor, "cache": _cache}[options.command]
        return int(command.run(options))
    except BrokenPipeError:
        # The reader of our output has gone (`purax predict ... | head`): nothing is left to say.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("matplotlib", "safetensors"):
            raise
        print(f"purax: error: {error}", file=sys.stderr)
        return 1
    except (PuraxError, OSError) as error:
        print(f"purax: error: {error}", file=sys.stderr)
        return 1
