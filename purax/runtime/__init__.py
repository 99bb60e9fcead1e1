# SPDX-License-Identifier: Apache-2.0
"""Devices, arrays, transfers, executables: everything that touches jaxlib. README.md tells who owns which memory."""
