# SPDX-License-Identifier: Apache-2.0
"""The layers, one family per file."""
