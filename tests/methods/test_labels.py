"""Label counts: the distribution of the federation, and the clients' shares in each class."""

import numpy as np

from fedmirage.common.methods._labels import client_shares, label_shares

COUNTS = np.array([[3.0, 0.0, 1.0], [1.0, 0.0, 3.0]])  # two clients, three classes


def test_a_class_that_nobody_has_is_left_out() -> None:
    np.testing.assert_array_equal(label_shares(COUNTS.mean(0)), [0.5, 0.0, 0.5])
    np.testing.assert_array_equal(client_shares(COUNTS), [[0.75, 0, 0.25], [0.25, 0, 0.75]])


def test_smoothing_adds_to_every_client_and_class() -> None:
    """With one more sample per client and class, 6 + 2 + 6 samples: nothing is 0 / 0, but the class
    that nobody has is now shared by clients that never saw it."""
    np.testing.assert_allclose(label_shares(COUNTS.mean(0), 1), np.array([6, 2, 6]) / 14)
    np.testing.assert_allclose(client_shares(COUNTS, 1)[:, 1], [0.5, 0.5])


def test_the_sum_of_the_counts_is_enough_for_the_distribution() -> None:
    np.testing.assert_array_equal(label_shares(COUNTS.mean(0)), label_shares(COUNTS.sum(0)))
