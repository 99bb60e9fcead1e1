# SPDX-License-Identifier: Apache-2.0
"""Writes tools/peer_names.txt: the public names of JAX, Flax linen and Optax, and nothing else of them.

Run by a Python that has the three: `PEER_PYTHON tools/make_peer_names.py`. Names that warn when they are read are deprecated and left out.
A block is a module, and below it, indented, its names.
"""

import importlib
import textwrap
import types
import warnings
from pathlib import Path

NAMES = Path(__file__).resolve().parent / "peer_names.txt"
MODULES = """
jax jax.numpy jax.numpy.linalg jax.numpy.fft jax.lax jax.lax.linalg jax.random jax.nn jax.nn.initializers jax.scipy.cluster.vq
jax.scipy.fft jax.scipy.integrate jax.scipy.interpolate jax.scipy.linalg jax.scipy.ndimage jax.scipy.optimize jax.scipy.signal
jax.scipy.sparse.linalg jax.scipy.spatial.transform jax.scipy.special jax.scipy.stats jax.tree jax.tree_util jax.sharding jax.dtypes
jax.errors jax.debug jax.image jax.ops jax.flatten_util jax.custom_batching jax.custom_derivatives jax.ad_checkpoint jax.stages
jax.export jax.ffi jax.dlpack jax.distributed jax.monitoring jax.profiler jax.typing jax.ref jax.test_util jax.core jax.api_util
jax.experimental jax.experimental.checkify jax.experimental.sparse jax.experimental.jet jax.experimental.shard_map
jax.experimental.multihost_utils jax.experimental.pallas jax.experimental.mesh_utils
jax.extend jax.extend.core jax.extend.backend jax.extend.linear_util jax.extend.random jax.interpreters.ad jax.interpreters.batching
jax.interpreters.mlir jax.interpreters.partial_eval jax.interpreters.pxla jax.interpreters.xla jax.example_libraries.optimizers
jax.example_libraries.stax
flax.linen flax.linen.initializers flax.core flax.struct flax.serialization flax.traverse_util flax.training.train_state
optax optax.losses optax.schedules optax.projections optax.tree optax.tree_utils optax.contrib optax.perturbations optax.transforms
optax.assignment
"""
PEERS = {"jax", "jaxlib", "flax", "optax"}
# What modules import for themselves.
FOREIGN = {"annotations", "TYPE_CHECKING", "Any", "Callable", "Sequence", "Iterable", "partial", "cast"}


def belongs(value: object, module: str) -> bool:
    """Tell whether a module offers a value, rather than having imported it for itself."""
    top = module.partition(".")[0]
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith(top + ".")
    # These modules are libraries, whose imports can be seen; the others are made of nothing but names that are offered.
    library = module.startswith(("jax.experimental", "jax.extend", "jax.example", "flax", "optax"))
    made_in = getattr(value, "__module__", None)
    return not library or not isinstance(made_in, str) or made_in.partition(".")[0] in PEERS


def public(name: str) -> list[str]:
    """Return the public names of a module."""
    module = importlib.import_module(name)
    found = []
    for one in dir(module):
        if one.startswith("_") or one in FOREIGN:
            continue
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                value = getattr(module, one)
            except AttributeError:
                continue
        if belongs(value, name) and not any(issubclass(w.category, DeprecationWarning) for w in seen):
            found.append(one)
    return found


def main() -> None:
    """Write the file."""
    blocks = []
    for name in MODULES.split():
        try:
            names = public(name)
        except ImportError as error:
            print(f"left out: {error}")
            continue
        blocks.append(
            f"{name}\n" + textwrap.fill(" ".join(sorted(names)), 120, initial_indent="  ", subsequent_indent="  ")
        )
    versions = ", ".join(f"{one} {importlib.import_module(one).__version__}" for one in ("jax", "flax", "optax"))
    NAMES.write_text(f"# Public names of {versions}; tools/make_peer_names.py wrote them.\n" + "\n".join(blocks) + "\n")


if __name__ == "__main__":
    main()
