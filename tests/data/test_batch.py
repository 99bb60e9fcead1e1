# SPDX-License-Identifier: Apache-2.0
import threading

import numpy as np
import pytest

from purax.data import batches, epoch_order, number_of_batches, prefetch, shift_images


def test_batches_go_through_all_examples_once_and_keep_rows_together():
    data = {"x": np.arange(10) * 10, "y": np.arange(10)}
    seen = list(batches(data, 4, seed=3, drop_remainder=False))
    assert [len(batch["x"]) for batch in seen] == [4, 4, 2]
    rows = np.concatenate([batch["y"] for batch in seen])
    assert sorted(rows.tolist()) == list(range(10))
    np.testing.assert_array_equal(np.concatenate([batch["x"] for batch in seen]), rows * 10)


def test_the_order_depends_on_seed_and_epoch_only():
    np.testing.assert_array_equal(epoch_order(50, 1, 2), epoch_order(50, 1, 2))
    assert not np.array_equal(epoch_order(50, 1, 2), epoch_order(50, 1, 3))
    assert not np.array_equal(epoch_order(50, 1, 2), epoch_order(50, 2, 2))


def test_full_batches_have_one_shape_and_their_number_is_known():
    assert [batch.shape for batch in batches(np.arange(10), 4)] == [(4,), (4,)]
    assert number_of_batches(10, 4) == 2
    assert number_of_batches(10, 4, drop_remainder=False) == 3


def test_batches_are_copies():
    data = np.arange(4)
    next(batches(data, 2))[0] = 99
    assert data[0] == 0


@pytest.mark.parametrize(
    ("data", "size", "message"),
    [
        ((np.zeros(3), np.zeros(4)), 2, "need one first axis"),
        (np.zeros(()), 2, "need one first axis"),
        (np.zeros(3), 0, "at least 1, got 0"),
        (np.zeros(3), 4, "3 examples do not fill one batch of 4"),
    ],
)
def test_impossible_batches_are_refused_at_once(data, size, message):
    with pytest.raises(ValueError, match=message):
        batches(data, size)


def test_shifted_images_are_the_same_pixels_elsewhere():
    rng = np.random.default_rng(0)
    images = np.zeros((50, 8, 8, 1), np.float32)
    images[:, 3:5, 3:5] = rng.random((50, 2, 2, 1), np.float32)
    moved = shift_images(images, rng, pixels=2)
    assert moved.shape == images.shape
    assert moved.dtype == images.dtype
    np.testing.assert_array_equal(np.sort(moved.reshape(50, -1)), np.sort(images.reshape(50, -1)))
    assert len({tuple(np.argwhere(image[..., 0])[0]) for image in moved}) > 10


def test_prefetched_items_keep_their_order_and_are_transformed():
    assert list(prefetch(range(20), size=3, transform=lambda x: x * x)) == [x * x for x in range(20)]


def test_an_error_in_the_thread_appears_where_its_item_was_due():
    def items():
        yield 1
        raise KeyError("lost")

    iterator = prefetch(items())
    assert next(iterator) == 1
    with pytest.raises(KeyError, match="lost"):
        next(iterator)


def test_a_closed_iterator_ends_its_thread():
    iterator = prefetch(iter(int, 1), size=1)
    next(iterator)
    iterator.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "purax-prefetch"]
    with pytest.raises(ValueError, match="size must be at least 1"):
        prefetch([], size=0)
