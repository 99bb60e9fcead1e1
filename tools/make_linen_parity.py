# SPDX-License-Identifier: Apache-2.0
"""Write tests/linen/parity.json: numbers of Flax linen for the models of tests/linen/parity_cases.py.

Run it with an interpreter that has jax and flax installed, from the root of the repository:
`python tools/make_linen_parity.py`. Only numbers are stored: for each parameter and output its shape, its sum, its sum of
absolute values and three entries, for keys made from 0 (parameters), 1 (dropout) and 2 (noise).
"""

import json
import pathlib
import sys

import flax
import flax.linen
import jax
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "linen"))
from parity_cases import models, summary  # noqa: E402


def main() -> None:
    """Run every model and write the file."""
    rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1), "noise": jax.random.key(2)}
    found = {"versions": {"flax": flax.__version__, "jax": jax.__version__}, "models": {}}
    for name, (module, args, kwargs) in models(flax.linen, jax.numpy).items():
        output, variables = module.init_with_output(rngs, *args, **kwargs)
        found["models"][name] = {
            "variables": summary(variables, jax.tree.flatten_with_path, numpy.asarray),
            "output": summary(output, jax.tree.flatten_with_path, numpy.asarray),
        }
    lines = [f" {json.dumps(name)}: {json.dumps(values)}" for name, values in found["models"].items()]
    text = f'{{"versions": {json.dumps(found["versions"])},\n"models": {{\n' + ",\n".join(lines) + "\n}}\n"
    (ROOT / "tests" / "linen" / "parity.json").write_text(text)


if __name__ == "__main__":
    main()
