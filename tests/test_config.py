# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import threading

import pytest

from purax import config, contexts, errors


def run(program, **environment):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PURAX_")} | environment
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)


def test_a_setting_answers_to_our_name_and_to_jax_names():
    config.update("jax_debug_nans", True)
    assert config.debug_nans and config.jax_debug_nans and config.read("debug_nans")
    config.jax_debug_nans = False
    assert config.debug_nans is False
    config.update("jax_compilation_cache_dir", "/tmp/somewhere")
    assert config.cache_dir == "/tmp/somewhere"


def test_names_of_jax_that_mean_nothing_here_are_kept_without_effect():
    key = config.trace_key()
    config.update("jax_legacy_prng_key", "error")
    assert config.jax_legacy_prng_key == "error"
    config.update("jax_legacy_prng_key", "allow")
    assert config.trace_key() is key
    assert all(reason for _, reason in config.ACCEPTED.values())


def test_a_with_block_holds_in_its_own_thread_and_ends():
    seen = []
    with contexts.enable_x64(True):
        assert config.enable_x64
        thread = threading.Thread(target=lambda: seen.append(config.enable_x64))
        thread.start()
        thread.join()
        with contexts.enable_x64(False):
            assert not config.enable_x64
        assert config.enable_x64
    assert seen == [False] and not config.enable_x64


def test_a_with_block_ends_when_its_body_raises():
    with pytest.raises(RuntimeError, match="body"), contexts.debug_nans(True):
        raise RuntimeError("body")
    assert not config.debug_nans


def test_an_update_reaches_what_a_with_block_leaves_open():
    with contexts.enable_x64(True):
        config.update("debug_nans", True)
        assert config.debug_nans and config.enable_x64
        config.update("enable_x64", False)
        assert config.enable_x64
    assert config.debug_nans and not config.enable_x64


def test_a_context_decorates_a_function():
    @contexts.numpy_dtype_promotion("strict")
    def inside():
        return config.numpy_dtype_promotion

    assert inside() == "strict" and inside() == "strict"
    assert config.numpy_dtype_promotion == "standard"
    assert contexts.enable_x64.value is False


def test_the_trace_key_is_one_object_per_set_of_traced_values():
    key = config.trace_key()
    with contexts.enable_x64(True):
        wide = config.trace_key()
        assert wide is not key and dict(wide.items)["enable_x64"] is True
    with contexts.debug_nans(True):
        assert config.trace_key() is key
    with contexts.enable_x64(True):
        assert config.trace_key() is wide
    assert config.trace_key() is key


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("enable_x64", "maybe", "on or off"),
        ("numpy_dtype_promotion", "loose", "'standard', 'strict'"),
        ("num_cpu_devices", "many", "an integer"),
        ("num_cpu_devices", 0, "an integer above 0"),
        ("num_cpu_devices", "-2", "an integer above 0"),
        ("jax_default_matmul_precision", "exact", "'highest'"),
        ("platforms", 3, "a string"),
    ],
)
def test_a_bad_value_raises_and_lists_the_good_ones(name, value, part):
    with pytest.raises(errors.SettingValueError, match=part):
        config.update(name, value)


def test_an_unknown_name_raises_and_lists_all():
    with pytest.raises(errors.UnknownSettingError, match="enable_x64") as info:
        config.update("enable_x46", True)
    assert isinstance(info.value, AttributeError)
    with pytest.raises(AttributeError):
        config.enable_x46


def test_a_sealed_setting_refuses_another_value_but_takes_its_own():
    program = (
        "from purax import config, errors\n"
        "config.seal('num_cpu_devices', why='the backend has started.')\n"
        "config.update('num_cpu_devices', config.num_cpu_devices)\n"
        "try: config.update('num_cpu_devices', 4)\n"
        "except errors.SealedSettingError as error: print(error)\n"
    )
    assert "the backend has started" in run(program).stdout


def test_each_setting_starts_from_its_environment_variable():
    done = run(
        "from purax import config; print(config.enable_x64, config.platforms, config.num_cpu_devices, config.cache)",
        PURAX_ENABLE_X64="1",
        PURAX_PLATFORMS="cpu",
        PURAX_NUM_CPU_DEVICES="4",
        PURAX_CACHE="off",
    )
    assert done.stdout.split() == ["True", "cpu", "4", "False"], done.stderr
    assert "PURAX_THREADS" in run("from purax import config", PURAX_THREADS="two").stderr


def test_the_module_is_the_settings_however_it_is_imported():
    import purax.config as by_path
    from purax.config import config as by_name

    assert by_path is config and by_name is config
    assert set(config.values()) == set(config.SETTINGS)


def test_names_by_which_libraries_ask_for_64_bits():
    assert config.x64_enabled is config.enable_x64 is config._read("jax_enable_x64") is False
    with contexts.enable_x64(True):
        assert config.x64_enabled and config._read("x64_enabled")
