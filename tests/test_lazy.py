# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest

from purax.lazy import lazy


def test_a_lazy_module_is_imported_by_its_first_attribute():
    program = (
        "import sys; from purax.lazy import lazy\n"
        "colors = lazy('colorsys'); repr(colors); getattr(colors, '__wrapped__', None)\n"
        "assert 'colorsys' not in sys.modules\n"
        "assert colors.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0) and 'colorsys' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_missing_module_says_what_it_is_needed_for():
    missing = lazy("not_there_at_all.part", "install purax[train] to draw")
    with pytest.raises(ModuleNotFoundError, match="to draw"):
        missing.anything


def test_a_missing_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError):
        lazy("math").no_such_function
