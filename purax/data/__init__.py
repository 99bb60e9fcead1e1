# SPDX-License-Identifier: Apache-2.0
"""Data on its way to a model: sources, batches, prefetching."""

from purax.data.batch import batches, epoch_order, number_of_batches, shift_images
from purax.data.prefetch import prefetch
from purax.data.source import Digits, load_digits

__all__ = [
    "Digits",
    "batches",
    "epoch_order",
    "load_digits",
    "number_of_batches",
    "prefetch",
    "shift_images",
]
