# SPDX-License-Identifier: Apache-2.0
"""Primitives that hold programs: jit, branches, loops, scans, user-given rules, rematerialization, many devices."""
