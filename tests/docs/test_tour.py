# SPDX-License-Identifier: Apache-2.0
"""The tour: its code runs and prints what it says, the files that it names exist."""

import re

from tools import tour

ROOT = tour.TOUR.parent.parent


def test_the_code_of_the_tour_prints_what_the_tour_says():
    text = tour.TOUR.read_text(encoding="utf-8")
    assert text.count("```text") > 12
    assert tour.run(text) == text, "python tools/tour.py --write"


def test_the_files_that_the_tour_names_exist():
    paths = set(re.findall(r"\]\(\.\./([^)#]+)\)", tour.TOUR.read_text(encoding="utf-8")))
    assert len(paths) > 12
    missing = [path for path in sorted(paths) if not (ROOT / path).exists()]
    assert not missing
