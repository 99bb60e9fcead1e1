# SPDX-License-Identifier: Apache-2.0
"""Values that processes hand to each other: alone, and with a second process."""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

import purax
from purax import numpy as pnp
from purax.experimental import multihost_utils as multihost
from purax.sharding import NamedSharding, P


def test_a_process_alone_has_all_values():
    tree = {"a": pnp.arange(3), "b": np.float32(2)}
    assert multihost.process_allgather(tree)["a"].shape == (1, 3)
    np.testing.assert_array_equal(multihost.process_allgather(tree, tiled=True)["a"], [0, 1, 2])
    assert multihost.process_allgather(tree, tiled=True)["b"].shape == (1,)
    np.testing.assert_array_equal(multihost.broadcast_one_to_all(tree)["a"], [0, 1, 2])
    multihost.sync_global_devices("here")
    multihost.assert_equal(tree)
    with pytest.raises(ValueError, match="one source"):
        multihost.broadcast_one_to_all(tree, is_source=False)


@pytest.mark.devices
def test_the_part_of_a_process_alone_is_the_whole():
    mesh = purax.make_mesh((4, 2), ("x", "y"))
    whole = multihost.host_local_array_to_global_array((np.arange(8.0), np.ones(2)), mesh, (P("x"), P()))
    assert whole[0].sharding == NamedSharding(mesh, P("x")) and whole[1].is_fully_replicated
    part = multihost.global_array_to_host_local_array(whole, mesh, (P("x"), P()))
    np.testing.assert_array_equal(part[0], np.arange(8.0))
    np.testing.assert_array_equal(part[1], np.ones(2))


PROGRAM = """
import numpy as np
import purax
from purax.experimental import multihost_utils as multihost
from purax.runtime import client
from purax.sharding import P
index = int({index})
answers = open({answers!r}, "w")
say = lambda *values: print(*values, file=answers, flush=True)
client.initialize_distributed("127.0.0.1:{port}", 2, index)
own = np.arange(2) + 10 * index
say(multihost.process_allgather(own).tolist(), multihost.process_allgather(own, tiled=True).tolist())
say(multihost.broadcast_one_to_all(own).tolist(), multihost.broadcast_one_to_all(own, is_source=index == 1).tolist())
mesh = purax.make_mesh((4,), ("x",))
whole = multihost.host_local_array_to_global_array(own, mesh, P("x"))
say(multihost.process_allgather(whole, tiled=True).tolist())
say(multihost.global_array_to_host_local_array(whole, mesh, P("x")).tolist() == own.tolist())
multihost.sync_global_devices("end")
try: multihost.assert_equal(own)
except AssertionError: say("differ")
client.shutdown_distributed()
"""


@pytest.mark.xla
def test_two_processes_hand_values_to_each_other(unused_port, tmp_path):
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PURAX_", "XLA_", "NPROC"))}
    variables |= {"PURAX_CACHE": "off", "PURAX_NUM_CPU_DEVICES": "2", "PURAX_PLATFORMS": "cpu"}
    files = [
        tmp_path / f"answers{index}" for index in range(2)
    ]  # threads of XLA write to the standard output, within lines, too
    with contextlib.ExitStack() as stack:
        processes = []
        for index, path in enumerate(files):
            program = PROGRAM.format(index=index, port=unused_port, answers=str(path))
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                env=variables,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process, path in zip(processes, files, strict=True):
            _, problems = process.communicate(timeout=300)
            assert path.read_text().splitlines() == [
                "[[0, 1], [10, 11]] [0, 1, 10, 11]", "[0, 1] [10, 11]", "[0, 1, 10, 11]", "True", "differ",
            ], problems  # fmt: skip
