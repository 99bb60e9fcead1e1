# SPDX-License-Identifier: Apache-2.0
"""One file for each optimizer: its scaling and the optimizer together."""
