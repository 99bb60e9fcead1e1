# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: trees in safetensors files that are whole, or not there at all."""

from purax.train.checkpoint.state import from_bytes, load_params, restore, save, save_params, to_bytes

__all__ = ["from_bytes", "load_params", "restore", "save", "save_params", "to_bytes"]
