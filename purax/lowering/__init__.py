# SPDX-License-Identifier: Apache-2.0
"""Jaxprs to StableHLO text. No jaxlib, no devices: strings in, strings out."""
