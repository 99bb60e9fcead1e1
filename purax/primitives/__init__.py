# SPDX-License-Identifier: Apache-2.0
"""First-order primitives, one file per family, each with all its rules and the user function beside it.

Siblings need each other (broadcasting transposes to a sum, a sum to broadcasting): they import one another as modules and look
names up when called. Importing the package loads `base` first, so that this circle of modules is always entered at the same place.
"""

from purax.primitives import base  # first, so that each family finds base classes whichever module is asked for

__all__ = ["base"]
