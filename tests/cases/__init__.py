# SPDX-License-Identifier: Apache-2.0
"""Kinds of faults that were reported in public about libraries of this class, each with its relatives and the right answer."""
