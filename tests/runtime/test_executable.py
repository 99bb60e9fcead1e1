# SPDX-License-Identifier: Apache-2.0
"""Executables: compiled, run, saved, donated, failing, and on several devices."""

import os
import threading

import numpy as np
import pytest

from purax import config, errors, events
from purax.core.aval import array_aval
from purax.runtime import cache, client, executable
from purax.runtime.array import Array
from purax.runtime.executable import Executable, compile_text, load_serialized
from purax.runtime.transfer import device_put
from purax.sharding import NamedSharding, P, placement_of

pytestmark = pytest.mark.xla

FLOATS = array_aval((8,), np.dtype(np.float32))
ADD = """
module @add {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8xf32> loc("add"("f.py":3:2))
    return %0 : tensor<8xf32>
  }
}
"""


def numbers(start=0.0):
    return device_put(np.arange(8, dtype=np.float32) + np.float32(start))


def test_text_becomes_something_that_runs():
    add = compile_text(ADD, out_avals=[FLOATS], name="add")
    first, second = numbers(), numbers(1)
    (raw,) = add.run([first.buffer, second.buffer])
    (result,) = add.call([first, second])
    assert type(result) is Array and result.aval is FLOATS and not result.committed
    np.testing.assert_array_equal(result, np.asarray(first) + np.asarray(second))
    np.testing.assert_array_equal(np.asarray(memoryview(raw)), result)
    assert "HloModule" in add.as_text() and "flops" in add.cost_analysis()
    assert add.memory_analysis().argument_size_in_bytes == 64


def test_a_program_on_another_device_gives_committed_results():
    device = client.devices()[2]
    add = compile_text(ADD, out_avals=[FLOATS], devices=[device])
    given = device_put(numbers(), device)
    (result,) = add.call([given, given])
    assert result.device == device and result.committed
    np.testing.assert_array_equal(result, 2 * np.arange(8))


def test_saved_programs_run_again():
    add = compile_text(ADD, out_avals=[FLOATS])
    again = load_serialized(add.serialize(), out_avals=[FLOATS])
    np.testing.assert_array_equal(again.call([numbers(), numbers()])[0], 2 * np.arange(8))
    with pytest.raises(errors.JaxRuntimeError):
        load_serialized(add.serialize()[:-50], out_avals=[FLOATS])


def test_wrong_programs_name_the_fault_without_the_misleading_line():
    with pytest.raises(errors.JaxRuntimeError, match=r"stablehlo\.bad") as caught:
        compile_text(ADD.replace("stablehlo.add", "stablehlo.bad"), out_avals=[FLOATS])
    assert "Failed to parse" not in str(caught.value)
    with pytest.raises(errors.JaxRuntimeError):
        compile_text(ADD, out_avals=[FLOATS], options={"xla_no_such_flag": True})


# ---- donation

DONATED = ADD.replace("%a: tensor<8xf32>,", "%a: tensor<8xf32> {jax.buffer_donor = true},")


def test_donated_arrays_are_gone_and_views_of_them_are_not():
    add = compile_text(DONATED, out_avals=[FLOATS], donate=[0], name="step")
    given, other = numbers(), numbers()
    given.buffer
    view = np.asarray(given)
    (result,) = add.call([given, other])
    assert given.is_deleted() and not other.is_deleted()
    with pytest.raises(errors.DeletedArrayError, match="donated to step"):
        np.asarray(given)
    np.testing.assert_array_equal(view, np.arange(8))
    np.testing.assert_array_equal(result, 2 * np.arange(8))


def test_a_view_of_a_device_buffer_survives_the_donation_of_the_buffer():
    add = compile_text(DONATED, out_avals=[FLOATS], donate=[0])
    (given,) = add.call([numbers(), numbers()])
    view = np.asarray(given)
    for _ in range(3):
        (given,) = add.call([given, numbers(5)])
    np.testing.assert_array_equal(view, 2 * np.arange(8))


def test_one_array_twice_with_one_donated_is_refused():
    add = compile_text(DONATED, out_avals=[FLOATS], donate=[0])
    given = numbers()
    with pytest.raises(errors.DonationError, match="argument 0"):
        add.call([given, given])
    assert not given.is_deleted()


def test_a_raw_buffer_that_was_donated_is_told():
    add = compile_text(DONATED, out_avals=[FLOATS], donate=[0])
    (raw,) = add.run([numbers().buffer, numbers().buffer])
    add.run([raw, numbers().buffer])
    with pytest.raises(errors.DeletedArrayError):
        add.run([raw, numbers().buffer])


# ---- host callbacks

CALLBACK = """
module @call {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {api_version = 4 : i32, has_side_effect = true,
      backend_config = {index = 0 : ui64}} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""


def test_programs_call_python():
    program = compile_text(CALLBACK, out_avals=[FLOATS], callbacks=[lambda x: (np.asarray(x) * 3,)])
    np.testing.assert_array_equal(program.call([numbers()])[0], 3 * np.arange(8))


def test_what_a_callback_raises_reaches_the_reader():
    def fail(x):
        raise ValueError("out of tea")

    program = compile_text(CALLBACK, out_avals=[FLOATS], callbacks=[fail])
    with pytest.raises(errors.JaxRuntimeError, match="out of tea"):
        np.asarray(program.call([numbers()])[0])
    with pytest.raises(errors.JaxRuntimeError, match="out of tea"):
        program.call([numbers()])[0].block_until_ready()


# ---- several devices

SHARDED = """
module @sum {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %1 = stablehlo.add %a, %a : tensor<8xf32>
    return %1, %0 : tensor<8xf32>, tensor<f32>
  }
}
"""


@pytest.fixture
def sharded():
    mesh = client.make_mesh((4,), ("x",))
    cut, whole = (placement_of(NamedSharding(mesh, spec)) for spec in (P("x"), P()))
    scalar = array_aval((), np.dtype(np.float32))
    program = compile_text(SHARDED, out_avals=[FLOATS, scalar], devices=cut.devices, out_placements=[cut, whole])
    return program, cut


@pytest.mark.devices
def test_a_program_over_four_devices(sharded):
    program, cut = sharded
    doubled, total = program.call([device_put(numbers(), cut)])
    np.testing.assert_array_equal(doubled, 2 * np.arange(8))
    assert float(total) == 28.0 and doubled.sharding.spec == P("x") and total.is_fully_replicated
    assert [shard.data.tolist() for shard in doubled.addressable_shards] == [[0, 2], [4, 6], [8, 10], [12, 14]]


@pytest.mark.devices
def test_many_unwaited_collectives_do_not_block_each_other(sharded):
    program, cut = sharded
    given = device_put(numbers(), cut)
    totals = [program.call([given])[1] for _ in range(400)]
    assert {float(total) for total in totals} == {28.0}
    value = given
    for _ in range(100):
        value = program.call([value])[0]
    assert value.is_ready() or value.block_until_ready() is value


# ---- threads and kernels of LAPACK


def test_threads_compile_and_run_side_by_side():
    results, failures = {}, []

    def work(index):
        try:
            add = compile_text(ADD.replace("@add {", f"@add{index % 2} {{"), out_avals=[FLOATS])
            results[index] = np.asarray(add.call([numbers(index), numbers()])[0])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for index, result in results.items():
        np.testing.assert_array_equal(result, 2 * np.arange(8) + index)


CHOLESKY = """
module @cholesky {
  func.func public @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {api_version = 4 : i32, backend_config = {uplo = 76 : ui8},
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>,
      dense<> : tensor<0xindex>]} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
    return %0#0 : tensor<2x2xf32>
  }
}
"""


def test_lapack_is_registered_when_a_program_needs_it():
    matrix = np.array([[4, 2], [2, 3]], np.float32)
    program = compile_text(CHOLESKY, out_avals=[array_aval((2, 2), np.dtype(np.float32))])
    np.testing.assert_allclose(np.tril(program.call([device_put(matrix)])[0]), np.linalg.cholesky(matrix), rtol=1e-6)


# ---- the cache on disk


@pytest.fixture
def disk(tmp_path, monkeypatch):
    before = config.cache, config.cache_dir
    config.update("cache", True)
    config.update("cache_dir", str(tmp_path))
    yield tmp_path
    config.update("cache", before[0])
    config.update("cache_dir", before[1])


def kinds(seen):
    return [type(event).__name__ for event in seen]


def test_a_program_is_compiled_once_and_found_under_moved_source_lines(disk):
    with events.listen() as seen:
        compile_text(ADD, out_avals=[FLOATS], name="add")
    assert kinds(seen) == ["CacheMiss", "Compiled"] and seen[1].name == "add"
    with events.listen() as seen:
        again = compile_text(ADD.replace('"f.py":3:2', '"g.py":40:1'), out_avals=[FLOATS])
    assert kinds(seen) == ["CacheHit"] and seen[0].where == "disk"
    np.testing.assert_array_equal(again.call([numbers(), numbers()])[0], 2 * np.arange(8))
    with events.listen() as seen:
        compile_text(ADD, out_avals=[FLOATS], options={"xla_cpu_enable_fast_math": True})
    assert "Compiled" in kinds(seen)


def test_a_program_from_the_cache_can_be_saved_again(disk):
    for _ in range(2):
        add = compile_text(ADD, out_avals=[FLOATS])
    for _ in range(2):
        add = load_serialized(add.serialize(), out_avals=[FLOATS])
    np.testing.assert_array_equal(add.call([numbers(), numbers()])[0], 2 * np.arange(8))


@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "foreign", "checksummed nonsense"])
def test_damaged_files_are_compiled_anew(disk, harm):
    compile_text(ADD, out_avals=[FLOATS])
    (file,) = disk.iterdir()
    content = bytearray(file.read_bytes())
    if harm == "cut":
        file.write_bytes(content[:-100])
    elif harm == "flip":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif harm == "checksummed nonsense":
        cache.store(file.stem, b"nonsense")
    else:
        file.write_bytes(b"" if harm == "empty" else b"#!/bin/sh\n" * 100)
    with events.listen() as seen:
        add = compile_text(ADD, out_avals=[FLOATS])
    assert "Compiled" in kinds(seen)
    np.testing.assert_array_equal(add.call([numbers(), numbers()])[0], 2 * np.arange(8))
    with events.listen() as seen:
        compile_text(ADD, out_avals=[FLOATS])
    assert kinds(seen) == ["CacheHit"]


def test_an_unwritable_folder_is_no_obstacle(disk):
    blocked = disk / "file"
    blocked.write_text("")
    config.update("cache_dir", str(blocked / "below"))
    assert isinstance(compile_text(ADD, out_avals=[FLOATS]), Executable)


def test_unknown_default_flags_are_dropped(disk, monkeypatch):
    monkeypatch.setattr(executable, "_CPU_FLAGS", {"xla_cpu_flag_of_tomorrow": "yes"})
    compile_text(ADD, out_avals=[FLOATS])
    assert executable._CPU_FLAGS == {}
    with events.listen() as seen:
        compile_text(ADD, out_avals=[FLOATS])
    assert kinds(seen) == ["CacheHit"]


def test_flags_of_the_user_go_before_ours(monkeypatch):
    monkeypatch.setitem(os.environ, "XLA_FLAGS", "--xla_cpu_experimental_ynn_fusion_type=")
    assert executable._flags(client.devices()[0], None) == []
