# SPDX-License-Identifier: Apache-2.0
"""docs/conformance.md shows the numbers that are kept, and failures are sorted by the list of reasons."""

import json

from tools import conformance


def test_the_page_shows_the_numbers_that_are_kept():
    numbers = json.loads(conformance.NUMBERS.read_text(encoding="utf-8"))
    assert conformance.PAGE.read_text(encoding="utf-8") == conformance.page(numbers), (
        "python tools/conformance.py --write"
    )


def test_differences_name_their_tests():
    numbers = json.loads(conformance.NUMBERS.read_text(encoding="utf-8"))
    text = conformance.DIFFERENCES.read_text(encoding="utf-8")
    assert text == conformance.naming(text, numbers), "python tools/conformance.py --write"


def test_every_reason_has_a_kind_and_tests():
    for one in conformance.reasons():
        assert one.kind in conformance.KINDS and one.kind != "open"
        assert one.tests and one.reason


def test_a_failure_gets_the_first_reason_that_explains_it():
    known = [
        conformance.Reason("name", "not there", ["tests/a_test.py::*"], "no attribute"),
        conformance.Reason("difference", "on purpose", ["tests/*::A::test_x*"]),
    ]
    failures = [
        {"id": "a_test.py::A::test_x[1]", "reason": "has no attribute y"},
        {"id": "a_test.py::A::test_x[2]", "reason": "1 != 2"},
        {"id": "a_test.py::A::test_z", "reason": "1 != 2"},
    ]
    counts = dict.fromkeys(
        ("collected", "internal_static", "internal_dynamic", "semi", "deselected", "ran", "passed"), 3
    )
    result = {
        "file": "tests/a_test.py",
        "peer": "jax",
        "status": "ok",
        "skipped": 1,
        "xfailed": 1,
        "failures": failures,
    }
    numbers = conformance.numbers_of({**counts, **result}, known)
    assert numbers["failures"] == {"name: not there": 1, "difference: on purpose": 1, "open": 1}
    assert numbers["differences"] == {"on purpose": ["A::test_x[2]"]}
    assert conformance.naming("# Text\n", {"tests/a_test.py": numbers}).endswith(
        "\n- `tests/a_test.py`: on purpose: `A::test_x[2]`\n"
    )
    assert (numbers["left_out"], numbers["skipped"]) == (12, 2)
    text = conformance.page({"tests/a_test.py": numbers})
    assert "| `tests/a_test.py` | 3 | 12 | 3 | 3 | 100.0% | 2 |" in text
    assert "- 1: on purpose" in text
