# SPDX-License-Identifier: Apache-2.0
"""Space: `purax.scipy.spatial.transform`."""

from purax.scipy.spatial import transform

__all__ = ["transform"]
