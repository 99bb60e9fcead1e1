# SPDX-License-Identifier: Apache-2.0
"""The models of the corpus lower to the text that they lowered to before; `python tools/replay.py --write` accepts a change."""

import pytest

from tests.replay.models import MODELS
from tools import replay

KEPT = dict(line.split(maxsplit=1) for line in replay.HASHES.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_lowers_to_the_same_text(name):
    assert replay.record(name).split(maxsplit=1)[1] == KEPT[name]
