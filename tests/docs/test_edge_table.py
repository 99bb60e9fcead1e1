# SPDX-License-Identifier: Apache-2.0
"""The table of derivatives at edge points says what the code gives."""

from tools import edge_table


def test_the_table_of_edge_derivatives_is_what_the_code_gives():
    assert edge_table.TABLE.read_text(encoding="utf-8") == edge_table.table(compiled=False), (
        "python tools/edge_table.py --write"
    )
