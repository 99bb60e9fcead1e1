# SPDX-License-Identifier: Apache-2.0
"""The transformations: each file holds one, its trace, its form on flat values and its form on pytrees."""
