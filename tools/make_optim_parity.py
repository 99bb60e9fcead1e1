# SPDX-License-Identifier: Apache-2.0
"""Write `tests/optim/parity.json`: what Optax gives for each optimizer, schedule and loss on fixed small inputs.

Run it where jax and optax are installed (purax itself never needs them):

    python tools/make_optim_parity.py [OUTPUT]

The file holds expressions and numbers only. The test evaluates the same expressions with purax's `optim` under the
name `o`, and compares. The gradients are fixed functions of the parameters and the step, made by NumPy here and there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp  # type: ignore[import-not-found,unused-ignore]
import numpy as np
import optax  # type: ignore[import-not-found,unused-ignore]

STEPS = 6

OPTIMIZERS = [
    "o.sgd(0.1)",
    "o.sgd(0.1, momentum=0.9)",
    "o.sgd(o.linear_schedule(0.2, 0.1, 4), momentum=0.9, nesterov=True)",
    "o.adam(0.1)",
    "o.adam(0.1, b1=0.8, b2=0.9, eps=1e-3, eps_root=1e-2)",
    "o.adam(o.cosine_decay_schedule(0.1, 5), nesterov=True)",
    "o.adamw(0.1, weight_decay=0.1)",
    "o.nadam(0.1)",
    "o.nadamw(0.1, weight_decay=0.1)",
    "o.adamax(0.1)",
    "o.adamaxw(0.1, weight_decay=0.1)",
    "o.amsgrad(0.1, b2=0.5)",
    "o.amsgrad(0.1, b2=0.5, bias_correction_mu=False, bias_correction_nu=False)",
    "o.rmsprop(0.1)",
    "o.rmsprop(0.1, centered=True, momentum=0.9)",
    "o.rmsprop(0.1, eps_in_sqrt=False, initial_scale=0.5, momentum=0.9, nesterov=True)",
    "o.rmsprop(0.1, bias_correction=True)",
    "o.rmsprop(0.1, eps=1.0, centered=True, bias_correction=True)",
    "o.adagrad(0.1)",
    "o.adadelta(0.5, weight_decay=0.1)",
    "o.adadelta()",
    "o.adabelief(0.1)",
    "o.adabelief(0.1, eps_root=1e-2, nesterov=True)",
    "o.adafactor(0.1)",
    "o.adafactor()",
    "o.adafactor(0.1, min_dim_size_to_factor=2, momentum=0.9, weight_decay_rate=0.01)",
    "o.adafactor(0.1, min_dim_size_to_factor=2, multiply_by_parameter_scale=False, clipping_threshold=None)",
    "o.lion(0.1)",
    "o.lamb(0.1, weight_decay=0.1)",
    "o.lars(0.1, weight_decay=0.1)",
    "o.lars(0.1, trust_ratio_mask={'w': True, 'b': False, 'k': True}, nesterov=True)",
    "o.radam(0.1)",
    "o.radam(0.1, b2=0.6, nesterov=True)",
    "o.yogi(0.1)",
    "o.novograd(0.1, weight_decay=0.1)",
    "o.sm3(0.1)",
    "o.rprop(0.1)",
    "o.fromage(0.1)",
    "o.sign_sgd(0.1)",
    "o.signum(0.1)",
    "o.adan(0.1, weight_decay=0.1)",
    "o.optimistic_gradient_descent(0.1, alpha=0.7, beta=0.4)",
    "o.optimistic_adam(0.1)",
    "o.optimistic_adam(0.1, optimism=0.3)",
    "o.optimistic_adam_v2(0.1, alpha=0.7, beta=0.4)",
    "o.lbfgs(0.1, memory_size=3, linesearch=None)",
    "o.lbfgs(0.1, scale_init_precond=False, linesearch=None)",
    "o.contrib.ademamix(0.1, weight_decay=0.1)",
    "o.contrib.schedule_free_sgd(0.1, warmup_steps=3)",
    "o.contrib.schedule_free_adamw(0.1, weight_decay=0.1)",
    "o.chain(o.clip(0.2), o.sgd(0.1))",
    "o.chain(o.clip_by_global_norm(0.5), o.sgd(0.1))",
    "o.chain(o.adaptive_grad_clip(0.1), o.sgd(0.1))",
    "o.chain(o.clip_by_block_rms(0.3), o.scale(-0.1))",
    "o.chain(o.ema(0.5), o.scale(-0.1))",
    "o.chain(o.ema(0.5, debias=False), o.scale(-0.1))",
    "o.chain(o.apply_every(3), o.scale(-0.1))",
    "o.chain(o.scale_by_param_block_norm(), o.scale(-0.1))",
    "o.chain(o.centralize(), o.scale(-0.1))",
    "o.chain(o.normalize_by_update_norm(2.0), o.scale(-0.1))",
    "o.chain(o.scale(-1.0), o.keep_params_nonnegative())",
    "o.named_chain(('a', o.scale_by_adam()), ('b', o.scale(-0.1)))",
    "o.masked(o.adam(0.1), {'w': True, 'b': False, 'k': True})",
    "o.partition({'x': o.adam(0.1), 'y': o.sgd(0.1)}, {'w': 'x', 'b': 'y', 'k': 'x'})",
    "o.selective_transform(o.adam(0.1), freeze_mask={'w': True, 'b': False, 'k': True})",
    "o.apply_if_finite(o.adam(0.1), 2)",
    "o.inject_hyperparams(o.adam)(o.linear_schedule(0.2, 0.1, 4))",
    "o.flatten(o.adam(0.1))",
    "o.MultiSteps(o.adam(0.1), 2).gradient_transformation()",
    "o.MultiSteps(o.sgd(0.1), 3, use_grad_mean=False).gradient_transformation()",
    "o.conditionally_transform(o.adam(0.1), lambda step: step % 2 == 0)",
    "o.conditionally_mask(o.adam(0.1), lambda step: step % 2 == 1)",
]

SCHEDULES = [
    "o.constant_schedule(0.3)",
    "o.linear_schedule(1.0, 0.2, 10, 3)",
    "o.polynomial_schedule(1.0, 0.2, 2.5, 10)",
    "o.piecewise_constant_schedule(1.0, {3: 0.5, 9: 0.1})",
    "o.piecewise_interpolate_schedule('linear', 1.0, {3: 0.5, 9: 3.0})",
    "o.piecewise_interpolate_schedule('cosine', 1.0, {3: 0.5, 9: 3.0})",
    "o.exponential_decay(1.0, 4, 0.5)",
    "o.exponential_decay(1.0, 4, 0.5, 3, True, 0.2)",
    "o.exponential_decay(1.0, 4, 1.5, end_value=2.0)",
    "o.cosine_decay_schedule(1.0, 10, 0.1, 1.5)",
    "o.join_schedules([o.constant_schedule(1.0), o.linear_schedule(2.0, 3.0, 4)], [5])",
    "o.warmup_constant_schedule(0.0, 1.0, 5)",
    "o.warmup_cosine_decay_schedule(0.1, 1.0, 4, 12, 0.05)",
    "o.warmup_exponential_decay_schedule(0.1, 1.0, 4, 3, 0.5)",
    "o.cosine_onecycle_schedule(14, 1.0)",
    "o.linear_onecycle_schedule(14, 1.0)",
    "o.sgdr_schedule([{'init_value': 0.0, 'peak_value': 1.0, 'decay_steps': 6, 'warmup_steps': 2}] * 2)",
]

# Z: scores [2, 3]; P: distributions [2, 3]; Y: classes [2]; S: signs [2, 3]; A, B: vectors [2, 3]; E, K: [4, 3], [4];
# C, T, M: scores [2, 6, 4], sequences [2, 3], padding [6].
LOSSES = [
    "o.softmax_cross_entropy(Z, P)",
    "o.softmax_cross_entropy(Z, P, axis=0)",
    "o.softmax_cross_entropy_with_integer_labels(Z, Y)",
    "o.sigmoid_binary_cross_entropy(Z, P)",
    "o.sigmoid_focal_loss(Z, P)",
    "o.sigmoid_focal_loss(Z, P, alpha=0.25, gamma=1.5)",
    "o.smooth_labels(P, 0.1)",
    "o.hinge_loss(Z, S)",
    "o.losses.perceptron_loss(Z, S)",
    "o.losses.multiclass_hinge_loss(Z, Y)",
    "o.losses.multiclass_perceptron_loss(Z, Y)",
    "o.losses.poly_loss_cross_entropy(Z, P)",
    "o.kl_divergence(Z, P)",
    "o.losses.kl_divergence_with_log_targets(Z, A)",
    "o.convex_kl_divergence(Z, P)",
    "o.squared_error(A, B)",
    "o.l2_loss(A, B)",
    "o.huber_loss(A, B)",
    "o.huber_loss(A, B, delta=0.3)",
    "o.log_cosh(A, B)",
    "o.cosine_similarity(A, B)",
    "o.cosine_distance(A, B, epsilon=1e-3)",
    "o.ntxent(E, K)",
    "o.losses.triplet_margin_loss(A, B, Z)",
    "o.losses.sparsemax_loss(A, S > 0)",
    "o.losses.multiclass_sparsemax_loss(Z, Y)",
    "o.losses.dice_loss(Z, P)",
    "o.losses.dice_loss(Z, P, alpha=0.3, reduction='none', ignore_background=True)",
    "o.losses.multiclass_generalized_dice_loss(Z, P)",
    "o.losses.binary_dice_loss(Z, P)",
    "o.losses.ranking_softmax_loss(Z, P)",
    "o.losses.ranking_softmax_loss(Z, P, where=S > 0, reduce_fn=None)",
    "o.ctc_loss(C, C[..., 0] * 0, T, T * 0.0)",
    "o.ctc_loss(C, C[..., 0] * 0 + M, T, (T == 1) * 1.0)",
    "o.projections.projection_simplex(A, 2.0)",
    "o.projections.projection_l1_ball(A, 2.0)",
    "o.projections.projection_l1_sphere(A, 9.0)",
    "o.projections.projection_l2_ball(A, 1.0)",
    "o.projections.projection_l2_sphere(A, 3.0)",
    "o.projections.projection_linf_ball(A, 0.3)",
    "o.projections.projection_box(A, -0.2, B)",
    "o.projections.projection_non_negative(A)",
    "o.projections.projection_hypercube(A)",
    "o.projections.projection_vector(A, B)",
    "o.projections.projection_hyperplane(A, B, 0.5)",
    "o.projections.projection_halfspace(A, B, 0.5)",
    "o.projections.projection_halfspace(A, B, 9.0)",
    "o.safe_norm(A, 0.1)",
    "o.safe_root_mean_squares(A, 0.1)",
    "o.global_norm([A, B])",
    "o.incremental_update(A, B, 0.25)",
]


def inputs(asarray: Callable[..., Any]) -> dict[str, Any]:
    """Give the arrays that the losses are called with."""
    scores = asarray(np.array([[0.5, -1.25, 2.0], [3.0, 0.0, -0.5]], np.float32))
    distributions = asarray(np.array([[0.25, 0.75, 0.0], [0.1, 0.2, 0.7]], np.float32))
    classes = asarray(np.array([2, 0], np.int32))
    signs = asarray(np.array([[1, -1, 1], [-1, -1, 1]], np.float32))
    left = asarray(np.array([[0.1, 0.2, -0.4], [2.0, -1.0, 0.3]], np.float32))
    right = asarray(np.array([[0.3, -0.2, 0.5], [1.5, -1.5, -2.0]], np.float32))
    embeddings = asarray(np.array([[1, 0, 0.5], [0, 2, 0], [0.5, 0.1, 1], [0.3, 1, -1]], np.float32))
    groups = asarray(np.array([0, 1, 0, 1], np.int32))
    rng = np.random.default_rng(0)
    sounds = asarray(rng.standard_normal((2, 6, 4)).astype(np.float32))
    words = asarray(np.array([[2, 2, 3], [3, 2, 1]], np.int32))
    mute = asarray(np.array([0, 0, 0, 0, 0, 1], np.float32))
    both = {"E": embeddings, "K": groups, "C": sounds, "T": words, "M": mute}
    return both | {"Z": scores, "P": distributions, "Y": classes, "S": signs, "A": left, "B": right}


def start(asarray: Callable[..., Any]) -> dict[str, Any]:
    """Give the first parameters."""
    return {
        "w": asarray(np.array([1.0, -2.0, 0.5], np.float32)),
        "b": asarray(np.array([0.25, -0.75], np.float32)),
        "k": asarray(np.linspace(-1.0, 1.5, 6, dtype=np.float32).reshape(2, 3)),
    }


def gradient(name: str, value: Any, step: int) -> Any:
    """Give the gradient of one parameter in one step: it turns round now and then, so that rprop has work."""
    rng = np.random.default_rng([ord(name), step])
    return (value + 0.7 * rng.standard_normal(value.shape)).astype(np.float32)


def run(o: Any, text: str, asarray: Callable[..., Any]) -> dict[str, list[Any]]:
    """Train for some steps and give the last parameters."""
    optimizer = eval(text, {"o": o})
    params = start(asarray)
    state = optimizer.init(params)
    for step in range(STEPS):
        grads = {name: asarray(gradient(name, np.asarray(value), step)) for name, value in params.items()}
        updates, state = optimizer.update(grads, state, params)
        params = o.apply_updates(params, updates)
    return {name: np.asarray(value).tolist() for name, value in params.items()}


def main() -> None:
    """Evaluate everything with Optax and write the file."""
    default = Path(__file__).parents[1] / "tests" / "optim" / "parity.json"
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for name in ("named_chain", "selective_transform", "safe_norm"):
        if not hasattr(optax, name):
            setattr(optax, name, getattr(optax.transforms, name))
    data: dict[str, Any] = {
        "made_by": f"tools/make_optim_parity.py with optax {optax.__version__}",
        "optimizers": {text: run(optax, text, jnp.asarray) for text in OPTIMIZERS},
        "schedules": {
            text: [float(eval(text, {"o": optax})(jnp.asarray(step))) for step in range(18)] for text in SCHEDULES
        },
        "losses": {text: np.asarray(eval(text, {"o": optax, **inputs(jnp.asarray)})).tolist() for text in LOSSES},
    }

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: short(item) for key, item in value.items()}
        if isinstance(value, list):
            return [short(item) for item in value]
        return float(f"{value:.8g}") if isinstance(value, float) else value

    rows = ",\n".join(
        f' "{kind}": {{\n'
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in short(data[kind]).items())
        + "\n }"
        for kind in ("optimizers", "schedules", "losses")
    )
    output.write_text(f'{{\n "made_by": {json.dumps(data["made_by"])},\n{rows}\n}}\n')


if __name__ == "__main__":
    main()
