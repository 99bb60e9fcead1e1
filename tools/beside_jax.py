# SPDX-License-Identifier: Apache-2.0
"""Shows, where JAX is installed, that purax never loads it and that both work in one process, in either import order."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PURAX_WORK = """
import purax
from purax import numpy as pnp
def loss(w, x):
    return pnp.sum(pnp.tanh(x @ w) ** 2)
w, x = pnp.ones((4, 3)), pnp.arange(8.0).reshape(2, 4)
purax_value = float(purax.jit(loss)(w, x))
purax_grad = purax.jit(purax.grad(loss))(w, x).tolist()
"""

JAX_WORK = """
import jax
from jax import numpy as jnp
def jax_loss(w, x):
    return jnp.sum(jnp.tanh(x @ w) ** 2)
jw, jx = jnp.ones((4, 3)), jnp.arange(8.0).reshape(2, 4)
jax_value = float(jax.jit(jax_loss)(jw, jx))
jax_grad = jax.jit(jax.grad(jax_loss))(jw, jx).tolist()
"""

COMPARE = """
import math
assert math.isclose(purax_value, jax_value, rel_tol=1e-5), (purax_value, jax_value)
for ours, theirs in zip(sum(purax_grad, []), sum(jax_grad, []), strict=True):
    assert math.isclose(ours, theirs, rel_tol=1e-4, abs_tol=1e-5), (ours, theirs)
class Node:
    pass
purax.tree_util.register_pytree_node(Node, lambda node: ((1, 2), None), lambda _, children: Node())
assert len(purax.tree.leaves(Node())) == 2 and len(jax.tree.leaves(Node())) == 1
assert isinstance(purax.numpy.ones(3), purax.Array) and not isinstance(purax.numpy.ones(3), jax.Array)
"""

ALONE = """
import sys
loaded = sorted(name for name in sys.modules if name.split(".")[0] in ("jax", "flax", "optax"))
assert not loaded, loaded
"""

CASES = {
    "purax alone loads no jax": PURAX_WORK + "import numpy as np\nnp.asarray(w)\nrepr(w)\n" + ALONE,
    "purax first, then jax": PURAX_WORK + JAX_WORK + COMPARE,
    "jax first, then purax": JAX_WORK + PURAX_WORK + COMPARE,
    "imports first, work afterwards": "import purax, jax\n" + JAX_WORK + PURAX_WORK + COMPARE,
}


def main() -> int:
    """Run each case in a process of its own; return 1 if one failed."""
    failed = 0
    for name, program in CASES.items():
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"{'ok    ' if done.returncode == 0 else 'FAILED'} {name}")
        if done.returncode:
            failed += 1
            print(done.stderr)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
