# SPDX-License-Identifier: Apache-2.0
"""The settings of purax: typed attributes of this module.

`config.enable_x64` reads a setting, `config.update("enable_x64", True)` changes it for the whole process, and the context
managers of `purax.contexts` change it for one thread and one `with` block. Each setting starts from the environment
variable `PURAX_<NAME>`, and each answers to JAX's name for it as well. Reading and changing settings starts no backend.

The module carries properties, so `import purax.config` and `from purax import config` give one and the same object, and a
read costs one property call, one ContextVar look-up and one slot.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from operator import attrgetter
from threading import Lock
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from purax.errors import SealedSettingError, SettingValueError, UnknownSettingError, explain

__all__ = [
    "ACCEPTED",
    "SETTINGS",
    "Accepted",
    "Override",
    "TraceKey",
    "UserContext",
    "current",
    "read",
    "seal",
    "trace_key",
    "update",
    "values",
    "watch",
]


# ---- kinds of values: each parser takes what a user wrote and returns the value to keep, or raises ValueError


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("1", "true", "on", "yes", "y", "t"):
            return True
        if word in ("0", "false", "off", "no", "n", "f", ""):
            return False
    elif isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    raise ValueError("on or off (True or False)")


def _integer(value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return int(value)
    except (TypeError, ValueError):
        pass
    raise ValueError("an integer")


def _device_number(value: Any) -> int:
    number = _integer(value)
    if number < 1 and number != -1:
        raise ValueError("an integer above 0, or -1")
    return number


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, (str, os.PathLike)):
        return os.fspath(value) if value else None
    raise ValueError("a string or None")


def _anything(value: Any) -> Any:
    return value


def _one_of(*choices: str | None) -> Callable[[Any], str | None]:
    def parse(value: Any) -> str | None:
        if value in choices:
            return value
        if value == "" and None in choices:
            return None
        raise ValueError("one of " + ", ".join(repr(choice) for choice in choices))

    return parse


_CHECKS = ("nan", "div", "index")


def _kinds(value: Any) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else list(value or ())
    if names == ["all"]:
        return _CHECKS
    if not set(names) <= set(_CHECKS):
        raise ValueError("names among " + ", ".join(map(repr, _CHECKS)) + ", separated by commas, or 'all'")
    return tuple([name for name in _CHECKS if name in names])


@dataclass(frozen=True)
class Setting:
    """One row of the table: its parser and default, JAX's names for it, and whether it changes what tracing gives."""

    name: str
    parse: Callable[[Any], Any]
    default: Any
    meaning: str
    jax_names: tuple[str, ...] = ()
    traced: bool = False


_PRECISIONS = (
    None, "default", "fastest", "high", "highest", "bfloat16", "bfloat16_3x", "tensorfloat32", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
    "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip

_TABLE = (
    Setting("enable_x64", _flag, False, "keep 64-bit data and make 64-bit defaults", ("x64_enabled",), traced=True),
    Setting("numpy_dtype_promotion", _one_of("standard", "strict"), "standard", "how dtypes meet", traced=True),
    Setting("numpy_rank_promotion", _one_of("allow", "warn", "raise"), "allow", "broadcasting of ranks", traced=True),
    Setting("default_matmul_precision", _one_of(*_PRECISIONS), None, "precision of dot and conv", traced=True),
    Setting(
        "default_prng_impl",
        _one_of("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg"),
        "threefry2x32",
        "kind of new keys",
        traced=True,
    ),
    Setting("threefry_partitionable", _flag, True, "bits that do not depend on how they are sharded", traced=True),
    Setting("allow_f16_reductions", _flag, True, "whether lax.reduce_sum takes 16-bit floats", traced=True),
    Setting("debug_bounds", _flag, False, "raise for device indices out of bounds", traced=True),
    Setting("debug_key_reuse", _flag, False, "raise when a random key is used twice", traced=True),
    Setting("checks", _flag, True, "keep the checks of values that programs make", traced=True),
    Setting(
        "automatic_checks", _kinds, (), "kinds of checks made by themselves: 'nan,div,index' or 'all'", traced=True
    ),
    Setting("debug_nans", _flag, False, "raise when a result holds NaN"),
    Setting("debug_infs", _flag, False, "raise when a result holds inf"),
    Setting("user_context", _anything, (), "values of contexts that users made, part of each key", traced=True),
    Setting("xla_metadata", _anything, (), "attributes of operations, set by set_xla_metadata", traced=True),
    Setting("disable_jit", _flag, False, "run jitted functions operation by operation"),
    Setting("no_tracing", _flag, False, "raise when a jitted function is traced anew"),
    Setting("no_execution", _flag, False, "raise when a compiled function runs", traced=True),
    Setting("check_tracer_leaks", _flag, False, "raise when a tracer outlives its transformation"),
    Setting("enable_checks", _flag, False, "verify each jaxpr that is made"),
    Setting("log_compiles", _flag, False, "log each trace and compile"),
    Setting("explain_cache_misses", _flag, False, "log which part of a key made a trace necessary"),
    Setting("default_device", _anything, None, "device, or platform name, of new arrays"),
    Setting("platforms", _text, None, "platforms to start, in order: 'cpu', 'cuda,cpu'", ("jax_platform_name",)),
    Setting("num_cpu_devices", _device_number, -1, "number of virtual CPU devices; -1 leaves it to XLA_FLAGS, else 1"),
    Setting("cache", _flag, True, "keep compiled programs on disk", ("jax_enable_compilation_cache",)),
    Setting("cache_dir", _text, None, "where; None means the user's cache folder", ("jax_compilation_cache_dir",)),
    Setting("cache_max_size", _integer, 1 << 30, "bytes kept on disk", ("jax_compilation_cache_max_size",)),
    Setting("threads", _integer, 0, "worker threads of the CPU backend; 0 means one per core"),
    Setting("allocator", _one_of("auto", "system"), "auto", "'system' leaves malloc as it is"),
)

SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _TABLE}

_UNUSED = "the part of JAX that it tunes does not exist here"
_ALWAYS = "purax always does this"
ACCEPTED: dict[str, tuple[Any, str]] = {
    "jax_legacy_prng_key": ("allow", "what random functions do with raw keys: allow, warn or error"),
    "jax_enable_custom_prng": (False, "typed keys come from random.key"),
    "jax_random_seed_offset": (0, "added to every seed"),
    "jax_high_dynamic_range_gumbel": (False, _UNUSED),
    "jax_softmax_custom_jvp": (True, _ALWAYS),
    "jax_use_shardy_partitioner": (True, _ALWAYS),
    "jax_use_direct_linearize": (True, _ALWAYS),
    "jax_eager_constant_folding": (False, _UNUSED),
    "jax_cpu_enable_async_dispatch": (True, _ALWAYS),
    "jax_cpu_collectives_implementation": ("gloo", _UNUSED),
    "jax_custom_vjp_disable_shape_check": (False, _UNUSED),
    "jax_disable_bwd_checks": (False, _UNUSED),
    "jax_custom_vjp3": (False, _UNUSED),
    "jax_remat3": (False, _UNUSED),
    "jax_scan3": (False, _UNUSED),
    "jax_auto_pcast": (True, _UNUSED),
    "jax_remove_size_one_mesh_axis_from_type": (False, _UNUSED),
    "jax2tf_associative_scan_reductions": (False, _UNUSED),
    "jax_disable_vmap_shmap_error": (False, _UNUSED),
    "jax_disallow_mesh_context_manager": (False, _UNUSED),
    "jax_array_garbage_collection_guard": ("allow", _UNUSED),
    "jax_thread_guard": (False, _UNUSED),
    "jax_transfer_guard": ("allow", _UNUSED),
    "jax_transfer_guard_device_to_device": ("allow", _UNUSED),
    "jax_transfer_guard_device_to_host": ("allow", _UNUSED),
    "jax_transfer_guard_host_to_device": ("allow", _UNUSED),
    "jax_debug_log_modules": ("", "events.listen tells what happens"),
    "jax_logging_level": (None, "events.listen tells what happens"),
    "jax_log_checkpoint_residuals": (False, _UNUSED),
    "jax_pprint_use_color": (True, _UNUSED),
    "jax_mutable_array_checks": (True, _UNUSED),
    "jax_refs_to_pins": (False, _UNUSED),
    "jax_check_static_indices": (True, "Python indices are always checked"),
    "jax_explicit_x64_dtypes": ("allow", "a dtype asked for by name is always given"),
    "jax_error_checking_behavior_divide": ("ignore", _UNUSED),
    "jax_error_checking_behavior_nan": ("ignore", _UNUSED),
    "jax_error_checking_behavior_oob": ("ignore", _UNUSED),
    "jax_persistent_cache_min_compile_time_secs": (0.0, "every program is kept"),
    "jax_persistent_cache_min_entry_size_bytes": (0, "every program is kept"),
    "jax_persistent_cache_enable_xla_caches": ("", _UNUSED),
    "jax_raise_persistent_cache_errors": (False, "damaged entries are made anew"),
    "jax_compilation_cache_check_contents": (False, "entries carry a checksum"),
    "jax_compilation_cache_include_metadata_in_key": (False, _UNUSED),
    "jax_compilation_cache_expect_pgle": (False, _UNUSED),
    "jax_enable_pgle": (False, _UNUSED),
    "jax_pgle_profiling_runs": (3, _UNUSED),
    "jax_pgle_aggregation_percentile": (90, _UNUSED),
    "jax_exec_time_optimization_effort": (0.0, _UNUSED),
    "jax_memory_fitting_effort": (0.0, _UNUSED),
    "jax_memory_fitting_level": ("O2", _UNUSED),
    "jax_optimization_level": ("UNKNOWN", _UNUSED),
    "jax_disable_most_optimizations": (False, _UNUSED),
    "jax_compiler_enable_remat_pass": (True, _UNUSED),
    "jax_include_full_tracebacks_in_locations": (True, _UNUSED),
    "jax_traceback_filtering": ("auto", "tracebacks are left whole; errors name the line of the user"),
    "jax_traceback_in_locations_limit": (10, _UNUSED),
    "jax_tracer_error_num_traceback_frames": (5, _UNUSED),
    "jax_hlo_source_file_canonicalization_regex": (None, _UNUSED),
    "jax_include_debug_info_in_dumps": (True, _UNUSED),
    "jax_dump_ir_to": ("", _UNUSED),
    "jax_dump_ir_modes": ("stablehlo", _UNUSED),
    "jax_captured_constants_warn_bytes": (-1, "large constants become arguments"),
    "jax_captured_constants_report_frames": (0, "large constants become arguments"),
    "jax_embedded_constants_max_bytes": (-1, "large constants become arguments"),
    "jax_use_simplified_jaxpr_constants": (True, _UNUSED),
    "jax_sort_devices_by_process_index": (True, _ALWAYS),
    "jax_send_traceback_to_runtime": (False, _UNUSED),
    "jax_experimental_unsafe_xla_runtime_errors": (False, _UNUSED),
    "jax_debug_leaked_clients_on_clear_backends": (False, _UNUSED),
    "jax_threefry_gpu_kernel_lowering": (False, _UNUSED),
    "jax_use_magma": ("off", _UNUSED),
    "jax_bcoo_cusparse_lowering": (False, _UNUSED),
    "jax_use_ragged_dot_instruction": (False, _UNUSED),
    "jax_ragged_dot_use_ragged_dot_instruction": (False, _UNUSED),
    "jax_serialization_version": (0, _UNUSED),
    "jax_export_calling_convention_version": (0, _UNUSED),
    "jax_export_ignore_forward_compatibility": (False, _UNUSED),
    "jax_xla_backend": ("", _UNUSED),
    "jax_backend_target": ("", _UNUSED),
    "jax_xla_profile_version": (0, _UNUSED),
}

# Every name that a user may write -> our name.
_NAMES: dict[str, str] = {name: name for name in SETTINGS}
for _setting in _TABLE:
    _NAMES["jax_" + _setting.name] = _setting.name
    for _jax_name in _setting.jax_names:
        _NAMES[_jax_name] = _setting.name


# ---- state: one immutable Settings for the process, and for a thread inside `with` blocks a layer over it


class TraceKey:
    """The settings that change what tracing gives: one object per set of values, so equality is identity."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[tuple[str, Any], ...]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return "TraceKey(" + ", ".join(f"{name}={value!r}" for name, value in self.items) + ")"


_TRACED = tuple(setting.name for setting in _TABLE if setting.traced)
_trace_keys: dict[tuple[tuple[str, Any], ...], TraceKey] = {}


class Settings:
    """All values at one moment; never changed once made."""

    __slots__ = (*SETTINGS, "trace_key")
    trace_key: TraceKey
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, chosen: dict[str, Any]) -> None:
        for name, value in chosen.items():
            setattr(self, name, value)
        items = tuple((name, chosen[name]) for name in _TRACED)
        self.trace_key = _trace_keys.setdefault(items, TraceKey(items))


class _Layer:
    """The overrides of one thread, and the settings that they give over a certain base."""

    __slots__ = ("base", "overrides", "settings")

    def __init__(self, overrides: dict[str, Any]) -> None:
        self.overrides = overrides
        self.base = _base
        self.settings = Settings(_as_dict(_base) | overrides)


def _as_dict(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in SETTINGS}


def _parse(name: str, value: Any, written: str) -> Any:
    try:
        return SETTINGS[name].parse(value)
    except ValueError as error:
        raise SettingValueError(explain(f"{written} got {value!r}.", fix=f"give {error}.")) from None


def _from_environment() -> Settings:
    chosen = {}
    for name, setting in SETTINGS.items():
        variable = "PURAX_" + name.upper()
        text = os.environ.get(variable)
        chosen[name] = setting.default if text is None else _parse(name, text, f"the environment variable {variable}")
    return Settings(chosen)


_base: Settings = _from_environment()
_local: ContextVar[_Layer | None] = ContextVar("purax_settings", default=None)
_sealed: dict[str, str] = {}
_lock = Lock()


def current() -> Settings:
    """Return the settings in force in this thread."""
    layer = _local.get()
    if layer is None:
        return _base
    if layer.base is not _base:
        layer = _Layer(layer.overrides)
        _local.set(layer)
    return layer.settings


def trace_key() -> TraceKey:
    """Return the settings that change what tracing gives: an interned object, hashed and compared by identity."""
    layer = _local.get()
    return _base.trace_key if layer is None else current().trace_key


def values() -> dict[str, Any]:
    """Return the dict of all settings: each name and its value in this thread."""
    return _as_dict(current())


def _resolve(name: str) -> str:
    own = _NAMES.get(name)
    if own is None:
        raise UnknownSettingError(
            explain(f"there is no setting {name!r}.", fix="use one of " + ", ".join(sorted(SETTINGS)) + ".")
        )
    return own


def read(name: str) -> Any:
    """Return one setting by our name or JAX's.

    Returns
    -------
    the value

    Raises
    ------
    UnknownSettingError
        No setting has that name.
    """
    if name in ACCEPTED:
        return _accepted.get(name, ACCEPTED[name][0])
    return getattr(current(), _resolve(name))


_accepted: dict[str, Any] = {}


_read = read  # as it is called in JAX, where libraries use it though it is private


def update(name: str, value: Any) -> None:
    """Change one setting for the whole process; `with` blocks that override it go on to do so.

    Parameters
    ----------
    name : str
        Our name, or JAX's. Names of JAX that mean nothing here (`ACCEPTED` says why) are kept and have no effect.
    value : object
        A value of the type of the setting, or a text such as an environment variable holds.

    Raises
    ------
    UnknownSettingError
        No setting has that name; the message lists all.
    SettingValueError
        The setting does not take the value; the message says what it takes.
    SealedSettingError
        The setting shapes the backend, which has started with another value.
    """
    global _base
    if name in ACCEPTED:
        _accepted[name] = value
        return
    own = _resolve(name)
    parsed = _parse(own, value, f"the setting {name!r}")
    with _lock:
        before = getattr(_base, own)
        if parsed == before and type(parsed) is type(before):
            return
        if own in _sealed:
            raise SealedSettingError(
                explain(f"the setting {name!r} got {value!r}.", _sealed[own], "set it before that.")
            )
        _base = Settings(_as_dict(_base) | {own: parsed})
    _tell(own, 1 if parsed else -1)


def seal(*names: str, why: str) -> None:
    """Refuse further changes of some settings (`names`), saying `why`: the runtime calls it when a backend has started from them."""
    for name in names:
        _sealed[_resolve(name)] = why


_watchers: dict[str, Callable[[int], None]] = {}


def watch(name: str, callback: Callable[[int], None]) -> None:
    """Call `callback` with 1 each time a flag is turned on, by an update or a `with` block, and with -1 when that ends."""
    _watchers[name] = callback
    if getattr(_base, name):
        callback(1)


def _tell(name: str, step: int) -> None:
    watcher = _watchers.get(name)
    if watcher is not None:
        watcher(step)


class Override:
    """A setting as a context manager: `with enable_x64(True): ...`, or `@enable_x64(True)` above a function."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = _resolve(name)

    def __call__(self, new_val: Any = True) -> "Scope":
        """Return the context manager that gives the setting a value in this thread."""
        return Scope(self.name, _parse(self.name, new_val, self.name))

    @property
    def value(self) -> Any:
        """The value in force in this thread."""
        return getattr(current(), self.name)

    def get_global(self) -> Any:
        """The value of the process, whatever `with` blocks of this thread say."""
        return getattr(_base, self.name)

    def set_global(self, value: Any) -> None:
        """Change the value of the process."""
        update(self.name, value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"<setting {self.name} = {self.value!r}: {SETTINGS[self.name].meaning}>"


class Scope(ContextDecorator):
    """One override while a `with` block runs."""

    __slots__ = ("_name", "_tokens", "_value")

    def __init__(self, name: str, value: Any) -> None:
        self._name = name
        self._value = value
        self._tokens: list[Token[_Layer | None]] = []

    def _recreate_cm(self) -> "Scope":
        return Scope(self._name, self._value)

    def __enter__(self) -> None:
        layer = _local.get()
        overrides = {self._name: self._value} if layer is None else layer.overrides | {self._name: self._value}
        self._tokens.append(_local.set(_Layer(overrides)))
        if self._value:
            _tell(self._name, 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del kind, error, traceback
        _local.reset(self._tokens.pop())
        if self._value:
            _tell(self._name, -1)


class UserContext:
    """A value of the user's own that jitted functions depend on: `with context(value): ...`.

    Functions are traced anew for each value, and find it as `context.value`. Values are compared by `==` and need a hash.
    """

    __slots__ = ("default",)

    def __init__(self, default: Any = None) -> None:
        self.default = default

    def __call__(self, value: Any) -> Scope:
        """Return the context manager that gives the context `value` in this thread."""
        return Scope("user_context", self._with(current().user_context, value))

    def _with(self, given: tuple[tuple[Any, Any], ...], value: Any) -> tuple[tuple[Any, Any], ...]:
        return (*((context, v) for context, v in given if context is not self), (self, value))

    def _in(self, given: tuple[tuple[Any, Any], ...]) -> Any:
        return next((value for context, value in given if context is self), self.default)

    @property
    def value(self) -> Any:
        """The value in force in this thread."""
        return self._in(current().user_context)

    def get_global(self) -> Any:
        """The value of the process."""
        return self._in(_base.user_context)

    def set_global(self, value: Any) -> None:
        """Change the value of the process."""
        update("user_context", self._with(_base.user_context, value))


class Accepted:
    """A setting of JAX that changes nothing here, as a context manager: it keeps its value and has no effect."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def __call__(self, new_val: Any = True) -> Iterator[None]:
        """Return the context manager that remembers the value."""
        before = self.value
        _accepted[self.name] = new_val
        try:
            yield
        finally:
            _accepted[self.name] = before

    @property
    def value(self) -> Any:
        """The value in force."""
        return read(self.name)


def parse_flags_with_absl() -> None:
    """Do nothing: settings come from the environment and from `update`, not from absl flags. For programs that port."""


def config_with_absl() -> None:
    """Do nothing; see `parse_flags_with_absl`."""


# ---- the module as an object with one property per name

enable_x64: bool
numpy_dtype_promotion: str
numpy_rank_promotion: str
default_matmul_precision: str | None
default_prng_impl: str
threefry_partitionable: bool
allow_f16_reductions: bool
debug_bounds: bool
checks: bool
automatic_checks: tuple[str, ...]
debug_key_reuse: bool
debug_nans: bool
debug_infs: bool
user_context: tuple[tuple[Any, Any], ...]
disable_jit: bool
no_tracing: bool
no_execution: bool
check_tracer_leaks: bool
enable_checks: bool
log_compiles: bool
explain_cache_misses: bool
default_device: Any
platforms: str | None
num_cpu_devices: int
cache: bool
cache_dir: str | None
cache_max_size: int
threads: int
allocator: str


def _property(name: str, own: str) -> property:
    def get(module: ModuleType) -> Any:
        return take(_base if overridden() is None else current())

    def put(module: ModuleType, value: Any) -> None:
        update(name, value)

    take = attrgetter(own)
    overridden = _local.get
    return property(get, put, doc=SETTINGS[own].meaning)


def _accepted_property(name: str) -> property:
    return property(lambda module: read(name), lambda module, value: update(name, value), doc=ACCEPTED[name][1])


class ConfigModule(ModuleType):
    """The type of this module: a module with a property for each setting."""


for _written, _own in _NAMES.items():
    setattr(ConfigModule, _written, _property(_written, _own))
for _written in ACCEPTED:
    setattr(ConfigModule, _written, _accepted_property(_written))

config = sys.modules[__name__]
config.__class__ = ConfigModule
