# SPDX-License-Identifier: Apache-2.0
"""Resampling of images: `resize`, `scale_and_translate`."""

from purax.numpy.resampling import ResizeMethod, resize, scale_and_translate

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
