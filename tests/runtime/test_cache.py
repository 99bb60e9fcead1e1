# SPDX-License-Identifier: Apache-2.0
"""The files of the cache: whole or absent, bounded, shared by processes."""

import multiprocessing
import os
import stat

import pytest

import purax
from purax import config, events
from purax.lowering.module import strip_paths
from purax.runtime import cache


@pytest.fixture
def folder(tmp_path):
    before = config.cache_dir, config.cache_max_size
    config.update("cache_dir", str(tmp_path / "programs"))
    yield tmp_path / "programs"
    config.update("cache_dir", before[0])
    config.update("cache_max_size", before[1])


def test_what_is_stored_is_loaded(folder):
    assert cache.load("a") is None
    assert cache.store("a", b"program")
    assert cache.load("a") == b"program"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found = cache.info()
    assert found.files == 1 and found.directory == str(folder) and found.bytes > 7
    assert cache.clear() == 1 and cache.load("a") is None and cache.info().files == 0


def test_damaged_files_count_as_absent_and_go(folder):
    cache.store("a", b"program")
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with events.listen() as seen:
        assert cache.load("a") is None and not list(folder.iterdir())
    assert seen == [events.CacheMiss("a.purax", "damaged file", where="disk")]


def test_a_program_is_found_under_its_own_name_only(folder):
    for name in "ab":
        cache.store(name, b"program " + name.encode())
    one, other = folder / "a.purax", folder / "b.purax"
    swapped = one.read_bytes(), other.read_bytes()
    one.write_bytes(swapped[1])
    other.write_bytes(swapped[0])
    assert cache.load("a") is None and cache.load("b") is None and not list(folder.iterdir())


def test_the_least_recently_used_go_first(folder):
    config.update("cache_max_size", 5000)
    for index in range(4):
        cache.store(str(index), bytes(1000))
        os.utime(folder / f"{index}.purax", (index, index))
    cache.load("0")
    cache.store("4", bytes(1000))
    assert cache.load("1") is None and cache.load("0") and cache.load("4")
    assert cache.info().bytes <= 5000
    assert not cache.store("large", bytes(6000))


def test_files_left_by_a_stopped_process_count_and_go(folder):
    folder.mkdir(mode=0o700)
    (folder / ".1-2-3.tmp").write_bytes(bytes(4000))
    os.utime(folder / ".1-2-3.tmp", (0, 0))
    config.update("cache_max_size", 4500)
    cache._sizes.clear()
    cache.store("a", bytes(1000))
    assert [file.name for file in folder.iterdir()] == ["a.purax"]


def write_and_read(folder, seed):
    config.update("cache_dir", folder)
    config.update("cache_max_size", 200_000)
    for turn in range(200):
        name = str((turn * 7 + seed) % 20)
        found = cache.load(name)
        if found is not None and (len(found) != 10_000 or set(found) != {int(name)}):
            raise SystemExit(1)
        cache.store(name, bytes([int(name)]) * 10_000)


def test_processes_share_a_folder(folder):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_and_read, args=(str(folder), seed)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    assert not [file for file in folder.iterdir() if file.suffix == ".tmp"]


TEXT = """#loc1 = loc("f.py":1:1)
%0 = stablehlo.add %a, %b : tensor<8xf32> loc("add(x)"("f.py":3:2))
%1 = stablehlo.constant dense<1> : tensor<i32> loc(#loc1)
%2 = stablehlo.custom_call @f(%1) {text = "a loc b"} : (tensor<i32>) -> tensor<i32> loc("jit(f)/g"(callsite("h" at "f (x).py":3:2)))
"""


def test_source_lines_are_no_part_of_a_program():
    stripped = cache.strip_locations(TEXT)
    assert "loc(" not in stripped and "a loc b" in stripped and stripped.count("\n") == 3
    assert cache.key(TEXT) == cache.key(TEXT.replace(":3:2", ":14:1"))
    assert cache.key(TEXT) != cache.key(TEXT.replace("dense<1>", "dense<2>")) and cache.key(TEXT, 1) != cache.key(
        TEXT, 2
    )


def test_neither_lines_nor_names_of_arguments_are_part_of_a_lowered_program():
    first = purax.jit(lambda x, d: {"a": x + d["w"] * 2}).lower(1.0, {"w": 2.0})
    second = purax.jit(
        lambda apple, pear: [
            apple
            + pear * 2
        ]
    ).lower(1.0, 2.0)  # fmt: skip
    first, second = [strip_paths(lowered.as_text(debug_info=True)) for lowered in (first, second)]
    assert first != second and cache.key(first) == cache.key(second)


def test_the_folder_follows_the_user_and_the_setting(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr("sys.platform", "linux")
    before = config.cache_dir
    config.update("cache_dir", None)
    assert str(cache.directory()) == "/somewhere/purax"
    config.update("cache_dir", before)
