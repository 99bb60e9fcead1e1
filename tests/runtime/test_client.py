# SPDX-License-Identifier: Apache-2.0
"""Backends and devices: what there is, what is the default, and what is said about what is not."""

import os
import subprocess
import sys

import pytest

import purax
from purax import config, contexts, errors
from purax.runtime import client
from purax.sharding import AxisType, Mesh, SingleDeviceSharding

# Loads the layers below without the front door, so that nothing else runs in the other process.
BARE = "import sys, types; m = types.ModuleType('purax'); m.__path__ = sys.argv[1:]; sys.modules['purax'] = m\n"


COUNT = "from purax.runtime import client; print(client.device_count())"


def in_a_process(code, **environment):
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PURAX_", "XLA_", "NPROC"))}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BARE + code, *purax.__path__],
        env=variables | {"PURAX_CACHE": "off"} | environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


def out_of_a_process(code, **environment):
    done = in_a_process(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.devices
def test_there_are_the_devices_that_were_asked_for():
    devices = client.devices()
    assert len(devices) == client.device_count() == client.local_device_count() == 8
    assert client.local_devices() == devices == client.devices(backend="cpu") == client.local_devices(0)
    assert client.default_backend() == "cpu" and client.backend().name == "cpu" and client.is_cpu_default()
    assert client.process_index() == 0 and client.process_count() == 1 and client.process_indices() == [0]
    assert client.platform_of(devices[1]) == "cpu" and client.default_device() == devices[0]
    assert [device.id for device in devices] == list(range(8))
    with pytest.raises(ValueError, match="no process 3"):
        client.local_devices(3)


@pytest.mark.devices
@pytest.mark.parametrize("choose", [lambda device: device, lambda device: f"cpu:{device.id}", SingleDeviceSharding])
def test_the_default_device_follows_the_context(choose):
    device = client.devices()[3]
    assert client.default_placement() is None
    with contexts.default_device(choose(device)):
        assert client.default_device() == device
        placement = client.default_placement()
        assert placement.devices == (device,) and not placement.committed
    with contexts.default_device(client.devices()[0]):
        assert client.default_placement() is None


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--xla_cpu_no_such=1", "'--xla_cpu_no_such'"),
        ("--xla_dump_hlo_as_text --xla_foo", "'--xla_foo'"),
        ("-xla_dump_hlo_as_text", "'-xla_dump_hlo_as_text'"),
        ("--xla_dump_hlo_as_text stray", "'stray'"),
        ("no_such_file", "'no_such_file'"),
        ("--xla_force_host_platform_device_count=0", "'--xla_force_host_platform_device_count=0'"),
        ("--xla_dump_to='", '"--xla_dump_to=\'"'),
    ],
)
def test_flags_that_xla_would_end_the_process_for_are_named(flags, named):
    done = in_a_process(COUNT, XLA_FLAGS=flags)
    assert (
        done.returncode == 1 and f"SettingValueError: the environment variable XLA_FLAGS holds {named}" in done.stderr
    )


def test_flags_may_stand_in_a_file(tmp_path):
    (tmp_path / "flags").write_text("--xla_force_host_platform_device_count=3\n--xla_dump_disable_metadata=true\n")
    assert out_of_a_process(COUNT, XLA_FLAGS=str(tmp_path / "flags")) == ["3"]


FORK = """
import os, signal, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 says what the error below says
import numpy as np
import purax
from purax import numpy as pnp

def child(run):
    process = os.fork()
    if not process:
        signal.alarm(60)
        try:
            run()
        except purax.errors.ForkedProcessError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

x = np.ones((300, 300), np.float32)
square = purax.jit(lambda x: x @ x)
print(child(lambda: square(x).block_until_ready()))
y = square(x).block_until_ready()
for run in (
    lambda: np.asarray(y),
    lambda: pnp.add(1, 2),
    lambda: square(x),
    lambda: square.lower(x).compile()(x),
    lambda: y @ y,
    lambda: purax.jit(pnp.tan)(x),
    lambda: purax.pmap(lambda x: x + 1)(x[:2]),
):
    print(child(run))
print(square(x)[0, 0])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of Unix")
def test_a_fork_reads_arrays_and_is_refused_what_would_hang():
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=300,
        env=os.environ | {"PURAX_NUM_CPU_DEVICES": "2", "PYTHONPATH": os.path.dirname(purax.__path__[0])},
    )  # fmt: skip
    assert done.stdout.split() == ["0", "0", "0", "1", "1", "1", "1", "1", "300.0"], done.stderr


@pytest.mark.devices
def test_a_mesh_of_the_first_devices():
    mesh = client.make_mesh((2, 2), ("x", "y"))
    assert isinstance(mesh, Mesh) and mesh.device_ids.tolist() == [[0, 1], [2, 3]]
    assert client.make_mesh((2,), ("x",), devices=client.devices()[4:]).device_ids.tolist() == [4, 5]
    with pytest.raises(ValueError, match="needs 16 devices, and there are 8"):
        client.make_mesh((16,), ("x",))
    with pytest.raises(ValueError, match="needs one axis type for each"):
        client.make_mesh((2, 2), ("x", "y"), axis_types=AxisType.Auto)


def test_a_platform_that_is_not_in_use_is_told():
    with pytest.raises(errors.PlatformError, match=r"Unknown backend 'foo'.*\n.*\['cpu'\]"):
        client.devices("foo")


def test_a_wrong_platform_name_lists_what_exists():
    done = in_a_process("from purax.runtime import client; client.devices()", PURAX_PLATFORMS="gpuu")
    assert done.returncode and "PlatformError" in done.stderr
    assert "'gpuu'" in done.stderr and "Installed here: cpu" in done.stderr


def test_settings_that_shape_a_backend_are_sealed_by_its_start():
    client.devices()
    with pytest.raises(errors.SealedSettingError):
        config.update("num_cpu_devices", 3)


def test_the_number_of_cpu_devices_comes_from_settings_or_xla_flags():
    flag = "--xla_force_host_platform_device_count=3"
    assert out_of_a_process(COUNT) == ["1"]
    assert out_of_a_process(COUNT, PURAX_NUM_CPU_DEVICES="2") == ["2"]
    assert out_of_a_process(COUNT, XLA_FLAGS=flag) == ["3"]
    assert out_of_a_process(COUNT, XLA_FLAGS=flag, PURAX_NUM_CPU_DEVICES="2") == ["2"]
    assert out_of_a_process("from purax import config; config.update('num_cpu_devices', 5)\n" + COUNT) == ["5"]


def test_small_arrays_and_questions_start_nothing():
    code = """
from purax.runtime import client
from purax.runtime.transfer import device_put
import numpy as np
x = device_put(np.ones(3)); repr(x), float(x.host[0]), x.committed
print("jaxlib" in sys.modules, len(client._backends))
"""
    assert out_of_a_process(code) == ["False", "0"]


def test_the_number_of_threads_reaches_xla_and_leaves_the_environment_as_it_was():
    code = """
import os
from purax.runtime import client
from purax.runtime.transfer import device_put
import numpy as np
device_put(np.ones(10**5)).block_until_ready()
names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print(sum("XLAEigen" in name or "XLAPjRt" in name for name in names) > 6, os.environ.get("NPROC"))
"""
    assert out_of_a_process(code, PURAX_THREADS="7") == ["True", "None"]
    assert out_of_a_process(code, PURAX_THREADS="1") == ["False", "None"]


def test_the_allocator_is_tuned_unless_the_system_s_is_asked_for():
    code = "from purax.runtime import _jaxlib; print(_jaxlib.ALLOCATOR_TUNED)"
    assert out_of_a_process(code, PURAX_ALLOCATOR="system") == ["False"]
    if sys.platform == "linux" and os.confstr("CS_GNU_LIBC_VERSION"):
        assert out_of_a_process(code) == ["True"]


def test_an_installed_jax_is_never_loaded(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("print('loaded')")
    code = """
import numpy as np
from purax.core.aval import array_aval
from purax.runtime import client, buffers
from purax.runtime.array import wrap_buffer
from purax.runtime.transfer import device_put, put
from purax.runtime.dlpack import from_dlpack
from purax.sharding import NamedSharding, P
from purax import dtypes
x = device_put(np.arange(8.), NamedSharding(client.make_mesh((4,), ("x",)), P("x")))
x.addressable_shards[1].data.host, buffers.read_raw(x.buffer, x.aval, x._placement)
small = put(np.ones(3, dtypes.int4), array_aval((3,), dtypes.int4))
wrap_buffer(small.aval, small.buffer).host
from_dlpack(np.ones(3)), from_dlpack(np.ones(3), copy=False).buffer
whole = device_put(x, NamedSharding(client.make_mesh((4,), ("x",)), P()))
buffers.read_raw(whole.buffer, whole.aval, whole._placement), whole.addressable_shards[2].data.buffer, x.copy_to_host_async()
wrap_buffer(small.aval, small.buffer).is_ready(), device_put(1.0).unsafe_buffer_pointer(), device_put(1.0).buffer.is_deleted()
print("jax" in sys.modules)
import jax
"""
    environment = {"PURAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": str(tmp_path)}
    assert out_of_a_process(code, **environment) == ["False", "loaded"]


DISTRIBUTED = """
import numpy as np
from purax.core.aval import array_aval
from purax.runtime import client, executable
from purax.runtime.transfer import make_array_from_process_local_data
from purax.sharding import NamedSharding, P, placement_of
index = int({index})
client.initialize_distributed("127.0.0.1:{port}", 2, index)
mesh = client.make_mesh((4,), ("x",))
sharding = NamedSharding(mesh, P("x"))
x = make_array_from_process_local_data(sharding, np.arange(4., dtype=np.float32) + 4 * index)
text = '''module @sum {{
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
      -> (tensor<f32> {{sdy.sharding = #sdy.sharding<@mesh, []>}}) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32> }} }}'''
scalar = array_aval((), np.dtype(np.float32))
program = executable.compile_text(text, out_avals=[scalar], devices=tuple(mesh.devices.flat),
                                  out_placements=[placement_of(NamedSharding(mesh, P()))])
total = program.call([x])[0]
print(x.shape[0], len(x.addressable_shards), client.process_count(), client.device_count(), float(total.host))
try: x.host
except RuntimeError as error: print("other" in str(error))
client.shutdown_distributed()
"""


@pytest.mark.xla
def test_two_processes_compute_together(unused_port):
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PURAX_", "XLA_", "NPROC"))}
    variables |= {"PURAX_CACHE": "off", "PURAX_NUM_CPU_DEVICES": "2", "PURAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BARE + DISTRIBUTED.format(index=index, port=unused_port), *purax.__path__],
            env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for index in range(2)
    ]  # fmt: skip
    for process in processes:
        output, problems = process.communicate(timeout=100)
        assert output.split()[-6:] == ["8", "2", "2", "4", "28.0", "True"], problems
