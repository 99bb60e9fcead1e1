# SPDX-License-Identifier: Apache-2.0
"""The machine: avals, primitives, traces, jaxprs. Knows no primitive, no text and no device."""
