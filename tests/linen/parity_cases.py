# SPDX-License-Identifier: Apache-2.0
"""Models whose parameters and outputs are compared with stored numbers of a peer, written so that either library can run them."""

from __future__ import annotations

from typing import Any


def models(nn: Any, np: Any) -> dict[str, Any]:
    """Return `{name: (module, args, kwargs)}` for a linen library `nn` and its numpy `np`."""

    class Named(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(4, name="first")(x)
            x = nn.Dense(4)(x)
            return nn.Sequential([nn.Dense(3), nn.relu, nn.Dense(2)])(x)

    class Setup(nn.Module):
        def setup(self):
            self.blocks = [nn.Dense(3), nn.Dense(3)]
            self.table = {"a": nn.Dense(3), "b": (nn.Dense(3),)}
            self.scale = self.param("scale", nn.initializers.normal(1.0), (3,))

        def __call__(self, x):
            for block in self.blocks:
                x = block(x)
            return self.table["b"][0](self.table["a"](x)) * self.scale

    class Dropped(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dropout(0.5, deterministic=False)(nn.Dense(8)(x))
            return nn.Dropout(0.5, deterministic=False)(nn.Dense(8)(x))

    class Step(nn.Module):
        @nn.compact
        def __call__(self, carry, x):
            carry = nn.Dropout(0.3, deterministic=False)(nn.Dense(4)(nn.Dense(4)(carry + x)))
            return carry, carry

    class Shared(nn.Module):
        @nn.compact
        def __call__(self, x):
            dense = nn.Dense(3)
            return dense(nn.Dense(3)(dense(x)))

    class Streams(nn.Module):
        @nn.compact
        def __call__(self, x):
            a = self.param("a", nn.initializers.uniform(), (2,))
            noise = self.variable("noise", "b", nn.initializers.normal(1.0), self.make_rng("noise"), (2,))
            return x[..., :2] + a + noise.value

    ramp = np.linspace(-1.0, 1.0, 24).reshape(2, 3, 4).astype(np.float32)
    image = np.sin(np.arange(2 * 6 * 6 * 4, dtype=np.float32)).reshape(2, 6, 6, 4)
    row = ramp[:, 0]
    split = {"params": True, "dropout": True}
    whole = {"params": False, "dropout": True}
    train = {"use_running_average": False}
    cells = {
        "lstm": nn.LSTMCell(5),
        "optimized_lstm": nn.OptimizedLSTMCell(5),
        "gru": nn.GRUCell(5),
        "mgu": nn.MGUCell(5),
        "mgu_plain": nn.MGUCell(5, reset_gate=False),
        "simple": nn.SimpleCell(5),
    }
    found: dict[str, Any] = {
        "dense": (nn.Dense(5), (row,), {}),
        "dense_general": (nn.DenseGeneral((2, 5), axis=(1, -1)), (image,), {}),
        "dense_batch": (nn.DenseGeneral(5, axis=-1, batch_dims=(0,)), (ramp,), {}),
        "einsum": (nn.Einsum((4, 5), "abc,cd->abd"), (ramp,), {}),
        "embed": (nn.Embed(7, 3), (np.array([[1, 2], [6, 0]]),), {}),
        "conv": (nn.Conv(5, (3, 3), strides=2, bias_init=nn.initializers.normal()), (image,), {}),
        "conv_groups": (nn.Conv(6, (3, 2), feature_group_count=2, padding="VALID", kernel_dilation=2), (image,), {}),
        "conv_circular": (nn.Conv(5, (3, 2), padding="CIRCULAR"), (image,), {}),
        "conv_reflect": (nn.Conv(5, (3, 3), padding="REFLECT"), (image,), {}),
        "conv_causal": (nn.Conv(5, 3, padding="CAUSAL", kernel_dilation=2), (image[0],), {}),
        "conv_input_dilation": (nn.Conv(5, (3, 3), padding=((1, 2), (0, 1)), input_dilation=(1, 2)), (image,), {}),
        "conv_local": (nn.ConvLocal(5, (3, 3), strides=2, padding="VALID"), (image,), {}),
        "conv_transpose": (nn.ConvTranspose(5, (3, 3), strides=(2, 2)), (image,), {}),
        "conv_transpose_circular": (nn.ConvTranspose(5, (5, 4), strides=(2, 3), padding="CIRCULAR"), (image,), {}),
        "conv_transpose_flipped": (
            nn.ConvTranspose(5, (3, 4), strides=(2, 1), padding="CIRCULAR", transpose_kernel=True),
            (image,),
            {},
        ),
        "batch_norm": (nn.BatchNorm(), (image,), train),
        "layer_norm": (nn.LayerNorm(), (ramp,), {}),
        "rms_norm": (nn.RMSNorm(), (ramp,), {}),
        "group_norm": (nn.GroupNorm(num_groups=2), (image,), {}),
        "instance_norm": (nn.InstanceNorm(), (image,), {}),
        "weight_norm": (nn.WeightNorm(nn.Dense(5)), (row,), {}),
        "spectral_norm": (nn.SpectralNorm(nn.Conv(5, (3, 3))), (image,), {"update_stats": True}),
        "attention": (nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=6), (ramp,), {}),
        "attention_cross": (
            nn.MultiHeadDotProductAttention(num_heads=2, normalize_qk=True, out_features=3),
            (ramp, ramp[:, :2]),
            {},
        ),
        "attention_dropout": (
            nn.MultiHeadDotProductAttention(num_heads=2, dropout_rate=0.5, deterministic=False),
            (ramp,),
            {},
        ),
        "rnn_reverse": (nn.RNN(nn.GRUCell(5), reverse=True, keep_order=True), (ramp,), {}),
        "rnn_lengths": (
            nn.RNN(nn.LSTMCell(5), return_carry=True),
            (ramp,),
            {"seq_lengths": np.array([2, 3])},
        ),
        "bidirectional": (nn.Bidirectional(nn.RNN(nn.LSTMCell(3)), nn.RNN(nn.GRUCell(3))), (ramp,), {}),
        "conv_lstm": (nn.RNN(nn.ConvLSTMCell(3, (3, 3))), (image[None],), {}),
        "prelu": (nn.PReLU(), (ramp,), {}),
        "named": (Named(), (row,), {}),
        "setup": (Setup(), (row,), {}),
        "dropped": (Dropped(), (row,), {}),
        "shared": (Shared(), (row[:, :3],), {}),
        "streams": (Streams(), (row,), {}),
        "remat": (nn.remat(Named)(), (row,), {}),
        "jit": (nn.jit(Named)(), (row,), {}),
        "vmap_split": (
            nn.vmap(Dropped, variable_axes={"params": 0}, split_rngs=split, in_axes=0)(),
            (ramp,),
            {},
        ),
        "vmap_shared": (nn.vmap(Dropped, variable_axes={"params": None}, split_rngs=whole)(), (ramp,), {}),
        "scan_split": (nn.scan(Step, variable_axes={"params": 0}, split_rngs=split)(), (row, ramp.swapaxes(0, 1)), {}),
        "scan_shared": (
            nn.scan(Step, variable_broadcast="params", split_rngs=whole, in_axes=1, out_axes=1)(),
            (row, ramp),
            {},
        ),
        "remat_scan": (
            nn.remat_scan(Shared, lengths=(2, 3))(),
            (row[:, :3],),
            {},
        ),
    }
    fp8 = {
        "direct": nn.Fp8DirectDotGeneralOp,
        "rounded": nn.Fp8DotGeneralOp,
        "nanoo": nn.NANOOFp8DotGeneralOp,
    }
    for name, product in fp8.items():
        found[f"fp8_{name}"] = (nn.Dense(5, dot_general_cls=product), (row,), {})
    for name, cell in cells.items():
        found[name] = (nn.RNN(cell), (ramp,), {})
    return found


def summary(values: Any, flatten: Any, array: Any) -> dict[str, Any]:
    """Return shape, sum, sum of absolute values and three entries of each leaf, by path."""
    found = {}
    for path, leaf in flatten(values)[0]:
        flat = array(leaf).astype("float64").ravel()
        name = "/".join(str(getattr(entry, "key", getattr(entry, "idx", entry))) for entry in path)
        numbers = [flat.sum(), abs(flat).sum(), flat[0], flat[flat.size // 2], flat[-1]]
        found[name] = [list(array(leaf).shape), [round(float(number), 6) for number in numbers]]
    return found
