# SPDX-License-Identifier: Apache-2.0
"""docs/coverage.md lists the names that exist."""

from tools import coverage


def test_the_page_of_names_is_what_the_code_has():
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(), "python tools/coverage.py --write"


def test_every_name_of_numpy_and_scipy_exists():
    found = [one for one in coverage.modules() if one.name.startswith(("jax.numpy", "jax.scipy"))]
    assert len(found) > 10
    assert not [f"{one.name}.{name}" for one in found for name in one.missing]
