# SPDX-License-Identifier: Apache-2.0
import pytest

from purax import config, contexts, events


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


def test_settings_write_events_to_the_logger(caplog):
    others = events.listening  # another test's listener may be alive in this process
    events.emit(events.Compiled("silent"))
    with contexts.log_compiles(True):
        assert events.listening
        events.emit(events.Compiled("f", seconds=0.5))
        events.emit(events.CacheMiss("f", part="dtype"))
    config.update("explain_cache_misses", True)
    events.emit(events.Compiled("silent"))
    events.emit(events.CacheMiss("g", part="shape", old=(2,), new=(3,)))
    events.emit(events.CacheMiss("g", part="program", new="digest", where="disk"))
    config.update("explain_cache_misses", False)
    assert bool(events.listening) == bool(others)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2 and "compilation of jit(f) in 0.5" in texts[0]
    assert "CACHE MISS of g: shape: now (3,) and before (2,)" in texts[1]
