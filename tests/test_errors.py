# SPDX-License-Identifier: Apache-2.0
import inspect

import pytest

from purax import errors

CLASSES = [value for name in errors.__all__ if inspect.isclass(value := getattr(errors, name))]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_each_error_is_ours_and_tells_its_cause_with_a_wrong_and_a_right_program(cls):
    assert issubclass(cls, errors.PuraxError)
    if cls not in (errors.PuraxError, errors.TracerError):
        assert "Wrong:" in cls.__doc__ and "Right:" in cls.__doc__


def test_errors_keep_the_builtin_base_of_their_fault():
    assert issubclass(errors.ShapeError, TypeError) and issubclass(errors.ShapeError, ValueError)
    assert issubclass(errors.TypePromotionError, ValueError)
    assert issubclass(errors.IndexOutOfBoundsError, IndexError)
    assert issubclass(errors.AxisNameError, NameError)
    assert issubclass(errors.NonFiniteError, FloatingPointError)
    assert issubclass(errors.IntegerOverflowError, OverflowError)
    assert issubclass(errors.TracerBoolConversionError, errors.ConcretizationTypeError)


def test_a_message_has_only_the_parts_that_are_given():
    assert errors.explain("got.") == "got."
    assert errors.explain("got.", fix="do.") == "got.\nFix: do."
