# SPDX-License-Identifier: Apache-2.0
"""The documents in docs/ are true."""
