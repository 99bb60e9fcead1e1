# SPDX-License-Identifier: Apache-2.0
"""Clustering: `purax.scipy.cluster.vq`."""

from purax.scipy.cluster import vq

__all__ = ["vq"]
