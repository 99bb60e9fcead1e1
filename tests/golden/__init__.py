# SPDX-License-Identifier: Apache-2.0
"""Programs beside the text that they give: jaxpr, StableHLO, error."""
