# SPDX-License-Identifier: Apache-2.0
"""From jaxprs to running executables: compile, evaluate one primitive, the stages of `jit`."""
