# SPDX-License-Identifier: Apache-2.0
"""The lowered text of a corpus of models: a change that calls itself a refactor leaves it as it is."""
