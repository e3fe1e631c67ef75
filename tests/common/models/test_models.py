"""Networks: sizes as published, one common interface, weights from the seed alone."""

from typing import Any

import pytest
import torch
from torch import nn

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.common.models.generators import FeatureGenerator, FeatureMeans
from fedmirage.common.models.params import MODELS
from fedmirage.common.settings.language import write
from fedmirage.common.wire import manifest
from fedmirage.common.wire.manifest import Manifest

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def floats(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("line", "shape", "classes", "count"),
    [
        ("simple-cnn", GREY, 10, 44_426),  # FedCOG, Fashion-MNIST
        ("simple-cnn", COLOUR, 10, 62_006),  # FedCOG, CIFAR-10
        ("cnn3", COLOUR, 100, 69_380),  # FedCOG, CIFAR-100
        ("convnet", COLOUR, 10, 320_010),  # DynaFed, CIFAR-10
        ("convnet", GREY, 10, 317_706),  # DynaFed, Fashion-MNIST
        ("convnet", COLOUR, 100, 504_420),  # DynaFed, CIFAR-100
        ("convnet", (3, 28, 28), 10, 311_050),  # FedLGD, DIGITS
        ("convnet", (3, 96, 96), 2, 336_386),  # FedLGD, RETINA
        ("mlp", GREY, 10, 118_282),  # DynaFed, Fashion-MNIST
        ("lenet-bn", GREY, 10, 13_802),  # FedMD-CG, Fashion-MNIST
        ("lenet-bn(hidden=128)", COLOUR, 10, 22_986),  # FedMD-CG, CIFAR-10
        ("lenet-bn(hidden=128)", GREY, 10, 22_698),  # FedMD-CG, EMNIST digits
        ("vhl-cnn", GREY, 10, 1_663_370),  # VHL's code: 3,136 values before the 512 features
        ("resnet18(stem='imagenet')", (3, 224, 224), 1000, 11_689_512),  # torchvision's own figures
        ("resnet34(stem='imagenet')", (3, 224, 224), 1000, 21_797_672),
        ("resnet50(stem='imagenet')", (3, 224, 224), 1000, 25_557_032),
        ("resnet18", COLOUR, 10, 11_173_962),  # with the stem for small images
        ("resnet10", COLOUR, 10, 4_903_242),
    ],
)
def test_parameter_counts_are_the_published_ones(
    line: str, shape: tuple[int, int, int], classes: int, count: int
) -> None:
    assert floats(build(line, shape, classes)) == count


@pytest.mark.parametrize(
    ("line", "shape", "extractor", "classifier"),
    [
        ("lenet-bn", GREY, 4_896, 8_906),
        ("lenet-bn(hidden=128)", COLOUR, 5_184, 17_802),
    ],
)
def test_lenet_bn_is_cut_where_fedmdcg_cuts_it(
    line: str, shape: tuple[int, int, int], extractor: int, classifier: int
) -> None:
    model = build(line, shape, 10)
    assert (floats(model.features), floats(model.classifier), model.feature_dim) == (
        extractor,
        classifier,
        128,
    )
    assert model.features(torch.randn(4, *shape)).min() >= 0


SMALL = [
    "simple-cnn",
    "cnn3",
    "lenet-bn",
    "convnet(width=8)",
    "convnet(width=6, depth=2, norm='batch')",
    "mlp",
    "vhl-cnn",
    "resnet10",
]
OTHERS = [
    "convnet(width=48, norm='group')",
    "convnet(width=4, norm='none')",
    "resnet18(norm='group', stem='imagenet')",
    "resnet10(norm='instance')",
    "mlp(hidden=7, layers=1)",
]


@pytest.mark.parametrize("shape", [GREY, COLOUR, (2, 24, 36)])
@pytest.mark.parametrize("line", SMALL + OTHERS)
def test_every_model_is_features_then_classifier_for_any_shape(
    line: str, shape: tuple[int, int, int]
) -> None:
    model = build(line, shape, 5, extra_outputs=3).eval()
    images = torch.randn(2, *shape)
    features = model.features(images)
    assert features.shape == (2, model.feature_dim)
    assert model(images).shape == (2, 8)
    assert torch.equal(model(images), model.classifier(features))
    maps = model.feature_maps(images)
    assert list(maps) == [*model.stages, "last"]
    assert torch.equal(maps["last"], features)
    last = [part for part in model.classifier.modules() if isinstance(part, nn.Linear)][-1]
    assert last.out_features == 8


def test_penultimate_features_and_stages() -> None:
    assert build("simple-cnn", GREY, 10).feature_dim == 84
    assert build("cnn3", COLOUR, 10).feature_dim == 128
    assert build("vhl-cnn", GREY, 10).feature_dim == 512
    assert [
        build("convnet", shape, 2).feature_dim for shape in ((3, 28, 28), COLOUR, (3, 96, 96))
    ] == [1152, 2048, 18432]
    resnet = build("resnet10", COLOUR, 10).eval()
    assert resnet.stages == ("stage1", "stage2", "stage3", "stage4")
    with torch.no_grad():
        sizes = [
            tuple(value.shape[1:])
            for value in resnet.feature_maps(torch.randn(1, *COLOUR)).values()
        ]
    assert sizes == [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4), (512,)]


@pytest.mark.parametrize("line", ["simple-cnn", "lenet-bn", "resnet10"])
def test_weights_come_from_the_seed_alone(line: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = build(line, GREY, 10, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again, wider, other = (
        build(line, GREY, 10, seed=7),
        build(line, GREY, 10, 10, seed=7),
        build(line, GREY, 10, seed=8),
    )
    assert same(first, again)
    assert same(first.features, wider.features)
    assert not same(first, other)
    build(line, GREY, 10, seed=2**63 - 1)


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(
        torch.equal(a, b)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


def test_initialisation_is_pytorchs_own() -> None:
    model = build("mlp", (1, 10, 10), 3, seed=5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        expected = [nn.Linear(100, 128), nn.Linear(128, 128), nn.Linear(128, 3)]
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.parameters(), nn.ModuleList(expected).parameters(), strict=True)
    )


@pytest.mark.parametrize("line", SMALL + OTHERS)
def test_nothing_works_in_place_and_second_derivatives_exist(line: str) -> None:
    model = build(line, COLOUR, 3)
    assert not any(getattr(part, "inplace", False) for part in model.modules())
    images = torch.randn(2, *COLOUR, requires_grad=True)
    gradients = torch.autograd.grad(
        model(images).square().sum(), list(model.parameters()), create_graph=True
    )
    (pixels,) = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), images)
    assert torch.isfinite(pixels).all()
    assert pixels.abs().sum() > 0


def test_instance_norm_is_one_channel_a_group() -> None:
    norms = [
        part
        for part in build("convnet(width=16)", COLOUR, 10).modules()
        if isinstance(part, nn.GroupNorm)
    ]
    assert [(norm.num_groups, norm.num_channels, norm.affine) for norm in norms] == [
        (16, 16, True)
    ] * 3
    grouped = [
        part
        for part in build("convnet(width=48, norm='group')", COLOUR, 10).modules()
        if isinstance(part, nn.GroupNorm)
    ]
    assert grouped[0].num_groups == 16
    assert not any(
        isinstance(part, nn.BatchNorm2d)
        for part in build("resnet10(norm='instance')", COLOUR, 10).modules()
    )


@pytest.mark.parametrize(
    ("line", "smallest", "channels"),
    [
        ("simple-cnn", 16, 1),
        ("cnn3", 22, 3),
        ("lenet-bn", 11, 1),
        ("vhl-cnn", 4, 1),
        ("convnet(width=4)", 8, 3),
        ("convnet(width=4)", 4, 1),
        ("resnet10(norm='instance')", 9, 3),
    ],
)
def test_images_that_are_too_small_are_refused_with_a_sentence(
    line: str, smallest: int, channels: int
) -> None:
    build(line, (channels, smallest, smallest), 10).eval()(
        torch.randn(1, channels, smallest, smallest)
    )
    with pytest.raises(
        ConfigurationError,
        match=(
            rf"needs images of at least {smallest}x{smallest} .* gives"
            rf" {smallest}x{smallest - 1}.*size="
        ),
    ):
        build(line, (channels, smallest, smallest - 1), 10)


def test_instance_norm_never_meets_a_single_pixel() -> None:
    for line, smallest in (
        ("resnet10(norm='instance')", 9),
        ("resnet10(norm='instance', stem='imagenet')", 33),
    ):
        model = build(line, (3, smallest, smallest), 10).eval()
        with torch.no_grad():
            assert model.feature_maps(torch.randn(1, 3, smallest, smallest))["stage4"].shape[
                2:
            ] == (2, 2)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("simple-cn", "did you mean 'simple-cnn'"),
        ("convnet(widht=3)", "did you mean 'width'"),
        ("convnet(norm='layer')", "norm"),
        ("mlp, cnn3", "holds 2 names"),
        ("mlp(layers=0)", "layers"),
    ],
)
def test_a_wrong_line_is_refused(line: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        build(line, GREY, 10)


@pytest.mark.parametrize(
    "arguments", [{"shape": (0, 28, 28)}, {"classes": 0}, {"extra_outputs": -1}]
)
def test_impossible_sizes_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="sizes and classes begin at 1"):
        build("mlp", **{"shape": GREY, "classes": 10, **arguments})


def test_every_model_explains_itself_and_can_be_written_and_read_again() -> None:
    for name, kind in MODELS.items():
        params = kind()
        assert params.name == name
        assert write(params) == name
        assert kind.__doc__
        assert all(field.description for field in kind.model_fields.values())
    assert isinstance(build(MODELS["mlp"](hidden=4), GREY, 10), Model)


def test_channels_last_gives_the_same_arrays_and_the_same_logits() -> None:
    plain, reordered = (
        build("simple-cnn", COLOUR, 10),
        build("simple-cnn", COLOUR, 10).to(memory_format=torch.channels_last),
    )
    images = torch.randn(4, *COLOUR)
    torch.testing.assert_close(
        plain(images), reordered(images.to(memory_format=torch.channels_last))
    )
    assert all(
        (a == b).all()
        for a, b in zip(manifest.to_arrays(plain), manifest.to_arrays(reordered), strict=True)
    )


def test_the_feature_generator_has_fedmdcgs_sizes() -> None:
    """138 -> 512 -> 256 -> 128 with batch norm: 236,928 weights and 1,536 running statistics."""
    generator = FeatureGenerator(noise_dim=128, classes=10, feature_dim=128)
    assert floats(generator) == 236_928
    statistics = [entry.size for entry in Manifest.of(generator).statistics]
    assert sum(statistics) == 1_536
    noise, labels = torch.randn(3, 128), torch.tensor([0, 9, 9])
    features = generator(noise, labels)
    assert features.shape == (3, 128)
    assert (features < 0).any()  # no activation after the last layer
    generator.eval()
    assert not torch.equal(generator(noise, labels), generator(noise, labels.flip(0)))


def test_a_feature_generator_may_have_fedgens_single_hidden_layer() -> None:
    """42 -> 256 -> 32 with batch norm, FedGen's for MNIST: 11,008 + 512 + 8,224 weights."""
    generator = FeatureGenerator(noise_dim=32, classes=10, feature_dim=32, hidden=(256,))
    assert floats(generator) == 11_008 + 512 + 8_224


def test_feature_means_know_the_label_only() -> None:
    means = FeatureMeans(noise_dim=128, classes=10, feature_dim=4)
    means.means.data.copy_(torch.arange(40.0).view(10, 4))
    given = means(torch.randn(2, 128), torch.tensor([2, 0]))
    assert given.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]


@pytest.mark.parametrize("name", ["simple-cnn", "lenet-bn"])
def test_pooling_before_relu_changes_no_bit(name: str) -> None:
    """The published order is ReLU first. Gradients agree as well: where a window has no positive
    value, both orders give zero."""
    found = []
    for published in (False, True):
        model = build(name, (1, 28, 28), 10, seed=1)
        if published:
            for stage in (model.features.stage1, model.features.stage2):
                order = ("conv", "norm", "activation", "pool")
                parts = {part: stage._modules[part] for part in order if part in stage._modules}
                stage._modules.clear()
                stage._modules.update(parts)
        images = torch.randn(4, 1, 28, 28, generator=torch.Generator().manual_seed(2))
        logits = model(images)
        gradients = torch.autograd.grad(logits.square().sum(), list(model.parameters()))
        found.append([logits, *gradients])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))
