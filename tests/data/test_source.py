# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax.data import load_digits, source
from purax.errors import DamagedFileError


def test_the_digits_are_whole_and_the_held_out_fifth_is_fixed_and_stratified():
    digits = load_digits()
    assert digits.train_images.shape == (1438, 8, 8, 1)
    assert digits.test_images.shape == (359, 8, 8, 1)
    assert digits.train_images.dtype == np.float32
    assert digits.test_labels.dtype == np.int32
    images = np.concatenate([digits.train_images, digits.test_images])
    assert (images.min(), images.max()) == (0.0, 1.0)
    labels = np.concatenate([digits.train_labels, digits.test_labels])
    np.testing.assert_array_equal(np.bincount(labels), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180])
    share = np.bincount(digits.test_labels) / np.bincount(labels)
    assert np.all(np.abs(share - 0.2) < 0.005)
    # The split file is data: another split would make accuracies incomparable.
    assert digits.test_labels[:8].tolist() == [1, 5, 7, 7, 3, 6, 9, 9]


def test_damaged_data_say_so(tmp_path, monkeypatch):
    (tmp_path / "digits.npz").write_bytes(b"PK not really")
    monkeypatch.setattr(source, "_FOLDER", tmp_path)
    with pytest.raises(DamagedFileError, match="install purax again"):
        load_digits()
