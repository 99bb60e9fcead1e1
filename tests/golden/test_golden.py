# SPDX-License-Identifier: Apache-2.0
"""Each program of this folder gives the text that stands beside it; `python tools/golden.py --write` accepts a change."""

import pytest

from tools import golden

PATHS = sorted(golden.FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_program_gives_the_text_beside_it(path):
    assert golden.actual(path) == path.read_text(encoding="utf-8")


def test_there_are_programs():
    assert len(PATHS) >= 10
