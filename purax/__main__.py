# SPDX-License-Identifier: Apache-2.0
"""`python -m purax` is the command `purax`."""

import sys

from purax.cli import main

if __name__ == "__main__":
    sys.exit(main())
