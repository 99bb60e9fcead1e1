# SPDX-License-Identifier: Apache-2.0
"""docs/differences.md says what purax answers; the column of JAX is checked by tools/differences.py where JAX is installed."""

from tools import differences


def test_the_column_of_purax_is_what_purax_answers():
    text = differences.DOCUMENT.read_text(encoding="utf-8")
    assert len(differences.inputs(text)) > 40
    now = differences.filled(text, differences.answers("purax", text), None)
    assert now == text, "python tools/differences.py --write"
