# SPDX-License-Identifier: Apache-2.0
"""Values that lie on devices in the same way."""

from purax.control.alike import shard_alike

__all__ = ["shard_alike"]
