"""The virtual sets and their losses: brute force, one seed, every shape, separable classes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.learning.losses import label_distance, supervised_contrast
from fedmirage.common.methods.vhl import Vhl
from fedmirage.common.methods.vhl.sets import seed_of, virtual_images
from fedmirage.common.methods.vhl.stylegan import StyleGan, blur, latent_std, noise_means, upsample
from fedmirage.common.seeds import torch_generator
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.handout import digest

GENERATORS = ["stylegan", "gaussian", "simple_cnn"]


def settings(**params: object) -> tuple[Vhl, RunConfig]:
    config = configure({"methods": "fedavg"})
    return Vhl(**{"width": 4, "per_class": 3, **params}), config  # type: ignore[arg-type]


def brute_force(features: torch.Tensor, labels: list[int], temperature: float) -> float:
    """Two loops over the rows, as the formula is written."""
    rows = [
        [value / max(math.sqrt(sum(x * x for x in row)), 1e-12) for value in row]
        for row in features.tolist()
    ]
    total = 0.0
    for i, one in enumerate(rows):
        products = {
            k: sum(x * y for x, y in zip(one, other, strict=True)) / temperature
            for k, other in enumerate(rows)
            if k != i
        }
        everything = math.log(sum(math.exp(value) for value in products.values()))
        partners = [k for k in products if labels[k] == labels[i]]
        total -= sum(products[p] - everything for p in partners) / max(1, len(partners))
    return total / len(rows)


@pytest.mark.parametrize("labels", [[0, 1, 0, 2, 1, 0], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]])
def test_supervised_contrast_by_brute_force(labels: list[int]) -> None:
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = supervised_contrast(features, torch.tensor(labels), 0.5)
    assert float(found) == pytest.approx(brute_force(features, labels, 0.5))


def test_supervised_contrast_flattens_and_is_stable_at_the_papers_temperature() -> None:
    features = 1e4 * torch.randn(8, 2, 3, 3, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1] * 4)
    assert float(supervised_contrast(features, labels, 0.07)) == pytest.approx(
        brute_force(features.flatten(1), labels.tolist(), 0.07), rel=1e-4
    )


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_supervised_contrast_of_dead_features(rows: int) -> None:
    features = torch.zeros(rows, 3, requires_grad=True)
    loss = (
        supervised_contrast(features, torch.zeros(rows, dtype=torch.int64), 0.07)
        + 0 * features.sum()
    )
    loss.backward()
    assert loss.isfinite()
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_label_distance() -> None:
    """Class 0: directions (1, 0) and (0, 1) are sqrt 2 apart; class 1: the same direction; class 2
    has no virtual partner."""
    real, virtual = (
        torch.tensor([[2.0, 0.0], [1.0, 1.0], [5.0, 5.0]]),
        torch.tensor([[0.0, 3.0], [4.0, 4.0]]),
    )
    found = label_distance(real, torch.tensor([0, 1, 2]), virtual, torch.tensor([0, 1]))
    assert float(found) == pytest.approx(math.sqrt(2) / 2)
    assert math.isnan(
        float(label_distance(real, torch.tensor([7, 8, 9]), virtual, torch.tensor([0, 1])))
    )


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 12)])
def test_every_generator_gives_bytes_of_the_runs_shape(
    generator: str, shape: tuple[int, int, int]
) -> None:
    params, config = settings(generator=generator)
    images, labels = virtual_images(params, config, shape, 2, seed=5)
    assert (images.dtype, images.shape) == (np.uint8, (6, *shape))
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images.std() > 20


@pytest.mark.parametrize("generator", GENERATORS)
def test_one_seed_one_set_whatever_the_threads(generator: str) -> None:
    params, config = settings(generator=generator)
    once = virtual_images(params, config, (3, 16, 16), 2, seed=5)
    torch.set_num_threads(2)
    again = virtual_images(params, config, (3, 16, 16), 2, seed=5)
    assert torch.get_num_threads() == 2
    assert np.array_equal(digest(once), digest(again))
    assert not np.array_equal(
        digest(once), digest(virtual_images(params, config, (3, 16, 16), 2, seed=6))
    )


@pytest.mark.parametrize("generator", ["stylegan", "gaussian"])
def test_classes_can_be_told_apart(generator: str) -> None:
    """Centroids of one half of each class recognise the other half, far above the 1/5 of chance;
    not with shuffled labels."""
    found = {}
    for shuffled in (False, True):
        params, config = settings(
            generator=generator, per_class=20, width=8, shuffle_labels=shuffled
        )
        images, labels = virtual_images(params, config, (3, 16, 16), 5, seed=1)
        assert sorted(labels.tolist()) == sorted(list(range(5)) * 20)
        flat, even = images.reshape(100, -1) / 255, np.arange(100) % 2 == 0
        centres = np.stack([flat[even & (labels == number)].mean(0) for number in range(5)])
        nearest = np.square(flat[~even, None] - centres[None]).sum(-1).argmin(1)
        found[shuffled] = (nearest == labels[~even]).mean()
    assert found[False] > 0.55 > found[True]


@pytest.mark.parametrize("generator", GENERATORS)
def test_grey_images_are_the_mean_of_colours_that_are_pixels_already(generator: str) -> None:
    """With raw colours, values far below 0 would outweigh the rest."""
    params, config = settings(generator=generator, per_class=4, width=16)
    colour, grey = (
        virtual_images(params, config, (channels, 32, 32), 10, seed_of(config))[0]
        for channels in (3, 1)
    )
    assert np.abs(colour.mean(axis=1, keepdims=True) - grey).max() <= 1


def test_few_grey_images_are_black() -> None:
    """With raw colours a quarter of StyleGAN's class 2 was black, and 53 % of all Gaussian pixels
    instead of 15 %."""
    params, config = settings(generator="stylegan", per_class=40, width=64)
    grey, _ = virtual_images(params, config, (1, 32, 32), 10, seed_of(config))
    assert (grey.reshape(10, 40, -1).max(axis=2) < 26).mean(axis=1).max() <= 0.05
    params, config = settings(generator="gaussian", per_class=40)
    grey, _ = virtual_images(params, config, (1, 28, 28), 10, seed_of(config))
    assert (grey == 0).mean() < 0.2


def test_another_data_set_lends_its_images() -> None:
    params, config = settings(generator="dataset", dataset="digits", per_class=4)
    images, labels = virtual_images(params, config, (3, 16, 16), 10, seed=0)
    assert images.shape == (40, 3, 16, 16)
    assert labels.tolist() == [number for number in range(10) for _ in range(4)]
    assert np.array_equal(images[:, 0], images[:, 2])
    with pytest.raises(
        ConfigurationError, match="12 virtual classes with one label per sample are needed"
    ):
        virtual_images(params, config, (3, 16, 16), 12, seed=0)


def test_scaling_inputs_and_outputs_is_a_kernel_for_every_sample() -> None:
    """StyleGAN-v2 as published: each sample's kernel scaled by its style, then every filter brought
    to length 1."""
    network = StyleGan(torch_generator(0, "test"), 8, 6, 4)
    convolution, value, style = network.convolutions[0], torch.randn(3, 6, 5, 5), torch.randn(3, 8)
    scale = style @ convolution.affine.T + 1  # (3, 6)
    kernels = convolution.kernel[None] * scale[:, None, :, None, None]  # (3, out, in, 3, 3)
    kernels = kernels / (kernels.square().sum(dim=(2, 3, 4), keepdim=True) + 1e-8).sqrt()
    expected = torch.cat([torch.conv2d(value[i : i + 1], kernels[i], padding=1) for i in range(3)])
    torch.testing.assert_close(convolution(value, style), expected, rtol=1e-4, atol=1e-5)
    assert convolution(value, style, upsample=True).shape == (3, 6, 10, 10)


def test_the_low_pass_keeps_constants() -> None:
    inside = upsample(torch.ones(1, 3, 8, 8))[..., 2:-2, 2:-2]
    torch.testing.assert_close(inside, torch.ones_like(inside))
    torch.testing.assert_close(blur(torch.ones(1, 2, 7, 7), gain=1), torch.ones(1, 2, 4, 4))


def test_latents_and_noise() -> None:
    assert [latent_std(classes) for classes in (10, 100, 200)] == [0.3, 0.2, 0.15]
    means = noise_means(4, 7, torch_generator(0, "test"))
    torch.testing.assert_close(means.norm(dim=1), torch.ones(4))
    before = torch.nn.functional.normalize(torch.randn(4, 7, generator=torch_generator(0, "test")))
    apart = [(rows @ rows.T).fill_diagonal_(0).square().sum() for rows in (means, before)]
    assert apart[0] < apart[1]
    params, config = settings(noise_gain=1.0)
    loud = virtual_images(params, config, (3, 16, 16), 2, seed=5)
    assert not np.array_equal(
        digest(loud), digest(virtual_images(settings()[0], config, (3, 16, 16), 2, seed=5))
    )


def test_tsne_draws_runs_with_and_without_a_virtual_set(tmp_path: Path) -> None:
    from experiments.studies.tsne import draw
    from fedmirage.report.tsne.finished import FinishedRun
    from tests.support.inprocess import run_in_process
    from tests.support.pairs import line
    from tests.support.vhl import BASE

    settings = {**BASE, "rounds": 1, "keep_models": "all"}  # with the clients' models
    for name, methods in (("fedavg", "fedavg"), ("vhl", line("vhl"))):
        run_in_process(tmp_path / name, **settings, methods=methods)
    runs = [FinishedRun.open(tmp_path / name) for name in ("fedavg", "vhl")]
    assert [list(run.models) for run in runs] == [["server", "client 0", "client 1"]] * 2
    assert [run.virtual is not None for run in runs] == [False, True]
    draw(runs, clients=2, samples=12, seed=0, path=tmp_path / "tsne.png")
    assert (tmp_path / "tsne.png").stat().st_size > 0
