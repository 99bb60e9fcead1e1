# SPDX-License-Identifier: Apache-2.0
import pytest

from purax import events


def test_listeners_get_events_in_order_until_they_stop():
    first, second = [], []
    stop = events.subscribe(first.append)
    with events.listen(second.append) as seen:
        assert events.listening
        events.emit(events.Traced("f", equations=3))
        stop()
        stop()
        events.emit(events.CacheMiss("f", part="dtype", old="float32", new="int32"))
    events.emit(events.Compiled("g"))
    assert [event.name for event in first] == ["f"]
    assert seen == second and [type(event).__name__ for event in seen] == ["Traced", "CacheMiss"]
    assert seen[1].part == "dtype"


def test_equal_listeners_are_separate_subscriptions():
    seen = []
    stop_first, stop_second = events.subscribe(seen.append), events.subscribe(seen.append)
    stop_first()
    events.emit(events.Lowered("f"))
    stop_second()
    assert len(seen) == 1


def test_listening_is_off_when_the_block_raises():
    before = events.listening
    with pytest.raises(KeyError), events.listen():
        raise KeyError
    assert events.listening == before


def test_events_cannot_be_changed():
    with pytest.raises(AttributeError):
        events.Compiled("f").name = "g"
