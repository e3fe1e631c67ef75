"""What the virtual images start from, and how many of them there are."""

import numpy as np
import pytest
import torch

from fedmirage.client.methods.distil.client import (
    begin_matching,
    class_statistics,
    draw_start,
    explain_counts,
    plan_counts,
)
from fedmirage.client.methods.distil.matching import RealImages
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.methods import METHODS
from fedmirage.common.methods.distil import Distil
from fedmirage.common.settings.language import resolve_line
from tests.support.distil import local_client, real_images

COUNTS = np.array([30, 4, 1, 0])


def test_statistics_are_per_class_and_channel_over_all_pixels() -> None:
    """Class 0 has the pixels -1, 1, 1, 1: mean 0.5, and deviation sqrt(0.75). All of class 1 is
    -1; the code's division by the whole client's size would give a mean of -0.5."""
    real = real_images([[0, 255], [255, 255], [0, 0], [0, 0]], [0, 0, 1, 1])
    mean, std = class_statistics(real.all(0))
    assert (float(mean), float(std)) == (pytest.approx(0.5), pytest.approx(0.75**0.5))
    mean, std = class_statistics(real.all(1))
    assert (float(mean), float(std)) == (pytest.approx(-1), pytest.approx(0, abs=1e-6))


def test_class_stats_draw_normal_pixels_with_these_statistics() -> None:
    local = local_client([0] * 50 + [2] * 50, (3, 8, 8))
    real, params = RealImages.of(local), Distil(per_class=40)
    images, labels = draw_start(params, real, np.array([40, 0, 40, 0]), 0, 0)
    for label in (0, 2):
        got, wanted = class_statistics(images[labels == label]), class_statistics(real.all(label))
        torch.testing.assert_close(got[0], wanted[0], atol=0.03, rtol=0)
        torch.testing.assert_close(got[1], wanted[1], atol=0.03, rtol=0)


def test_noise_is_standard_normal_and_knows_nothing_of_the_images() -> None:
    params, counts = Distil(start="noise"), np.array([10, 10, 0, 0])
    dark, bright = (
        draw_start(params, RealImages.of(local_client(labels)), counts, 0, 0)[0]
        for labels in ([0, 1] * 10, [1, 0] * 10)
    )
    assert torch.equal(dark, bright)
    assert abs(float(dark.mean())) < 0.1
    assert abs(float(dark.std()) - 1) < 0.1


def test_real_images_of_the_class_are_taken_once_each() -> None:
    local = local_client([0] * 12 + [1] * 5)
    real = RealImages.of(local)
    images, labels = draw_start(Distil(start="real"), real, np.array([10, 5, 0, 0]), 0, 0)
    for label in (0, 1):
        own = {image.numpy().tobytes() for image in real.all(label)}
        drawn = [image.numpy().tobytes() for image in images[labels == label]]
        assert len(set(drawn)) == len(drawn)
        assert set(drawn) <= own


def test_images_of_a_class_do_not_depend_on_the_other_classes() -> None:
    real = RealImages.of(local_client([0] * 12 + [1] * 12))
    both, _ = draw_start(Distil(), real, np.array([5, 5, 0, 0]), 0, 0)
    one, labels = draw_start(Distil(), real, np.array([0, 5, 0, 0]), 0, 0)
    assert torch.equal(both[5:], one)
    assert labels.tolist() == [1] * 5


def test_absent_rare_and_scarce_classes() -> None:
    """30 images give 10, 4 give 4, 1 could be copied and is left out, 0 gives none."""
    assert plan_counts(Distil(), COUNTS).tolist() == [10, 4, 0, 0]
    assert plan_counts(Distil(min_real_per_class=1), COUNTS).tolist() == [10, 4, 1, 0]
    assert explain_counts(Distil(), COUNTS) == [
        "distil leaves out 1 of the classes: fewer than min_real_per_class=2 real images, which"
        " virtual ones could copy",
        "distil makes fewer than per_class=10 virtual images of 1 of the classes, which have fewer"
        " real ones",
    ]
    assert explain_counts(Distil(), np.array([10, 0, 0, 0])) == []


def test_a_client_without_any_usable_class_says_so() -> None:
    local = local_client([0, 1, 2])
    with pytest.raises(FedmirageError, match=r"no class with min_real_per_class=2 real images"):
        begin_matching(Distil(), local, RealImages.of(local))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("distil(augment='color_blur')", "'blur' is unknown.*color, crop"),
        ("distil(augment='crop_flip_flip')", "'flip' is unknown or listed twice"),
        ("distil(start='mean')", "class_stats"),
        ("distil(per_class=0)", "greater than or equal to 1"),
    ],
)
def test_wrong_parameters_are_refused(line: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        resolve_line(line, METHODS, "methods")
