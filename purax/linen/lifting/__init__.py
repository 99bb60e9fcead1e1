# SPDX-License-Identifier: Apache-2.0
"""Transformations of functions of scopes, and how they become transformations of modules."""
