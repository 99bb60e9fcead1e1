# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import numpy as pnp


def test_arrays_come_back_from_files(tmp_path):
    for x in (pnp.arange(3), pnp.ones(2, "bfloat16"), pnp.array([1j])):
        pnp.save(tmp_path / "x.npy", x)
        back = pnp.load(tmp_path / "x.npy")
        assert back.dtype == x.dtype
        assert back.tolist() == x.tolist()
    pnp.savez(tmp_path / "xs.npz", pnp.arange(2), named=pnp.ones(1))
    with pnp.load(tmp_path / "xs.npz") as found:
        assert sorted(found) == ["arr_0", "named"]


def test_what_counts_as_a_scalar():
    for x in (1, 1.5, np.float32(1), np.array(1), pnp.float32(1), "s"):
        assert pnp.isscalar(x)
    for x in ([1], pnp.arange(1), np.ones(2)):
        assert not pnp.isscalar(x)


def test_the_namespace_tells_its_version():
    assert pnp.ones(1).__array_namespace__(api_version="2024.12") is pnp
    with pytest.raises(ValueError, match="2021"):
        pnp.ones(1).__array_namespace__(api_version="2021")
    assert pnp.__array_namespace_info__().default_dtypes()["real floating"] == np.float32
