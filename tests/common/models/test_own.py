"""Somebody's own network: how it is cut, what is refused, and that all of it is said at once."""

import pytest
import torch
from torch import nn

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models.base import LAST
from fedmirage.common.models.examination import examine
from fedmirage.common.models.factory import build
from fedmirage.common.models.params import read_model
from fedmirage.common.settings.language import write
from fedmirage.common.wire.manifest import Manifest
from tests.support import nets

SHAPE = (1, 8, 8)
HOME = "tests.support.nets"


def own(call: str, extra: int = 0, seed: int = 0):  # type: ignore[no-untyped-def]
    return build(f"{HOME}:{call}", SHAPE, 10, extra, seed)


def test_features_and_classifier_are_taken_as_they_are() -> None:
    model = own("Plain(width=3)")
    assert Manifest.of(model).names == tuple(nets.Plain(3).state_dict())
    assert model.feature_dim == 12
    assert model.training
    assert not any(getattr(layer, "inplace", False) for layer in model.modules())


def test_the_seed_gives_the_weights_and_leaves_the_ambient_generator() -> None:
    before = torch.get_rng_state()
    one, same, other = own("Plain"), own("Plain"), own("Plain", seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.classifier.weight, same.classifier.weight)
    assert not torch.equal(one.classifier.weight, other.classifier.weight)


@pytest.mark.parametrize("call", ["Rich(head='fc')", "Mapped", "plain(width=2)"])
def test_a_cut_network_computes_what_the_whole_one_does(call: str) -> None:
    whole = getattr(nets, call.partition("(")[0])
    whole = whole(2) if call.startswith("plain") else whole()
    images = torch.randn(3, *SHAPE)
    model = own(call).eval()
    whole.eval()(images)  # lazy layers get their shapes
    names = [model.original_name(name) for name in model.state_dict()]
    whole.load_state_dict(dict(zip(names, model.state_dict().values(), strict=True)))
    assert torch.equal(whole(images), model(images))
    assert model.features(images).shape == (3, model.feature_dim)
    assert model.feature_maps(images).keys() == {LAST}


def test_what_happens_between_the_parts_in_training_is_kept() -> None:
    model = own("Faulty(fault='dropout')")
    features = model.features(torch.ones(2, *SHAPE))
    assert (features == 0).any()
    assert not torch.equal(features, model.features(torch.ones(2, *SHAPE)))


def test_the_line_of_an_own_network_is_written_and_read_alike() -> None:
    params = read_model(f"{HOME}:Rich(head='fc', sizes=[1, (2, 3)], name_=None)")
    assert read_model(write(params)) == params
    assert read_model(f"{HOME}:Plain") != read_model(f"{HOME}:Rich")


def test_a_wider_head_leaves_the_features() -> None:
    for call in ("Plain", "Mapped", "Rich(head='fc')"):
        narrow, wide = own(call), own(call, extra=5)
        assert wide(torch.zeros(2, *SHAPE)).shape == (2, 15)
        for one, other in zip(
            narrow.features.parameters(), wide.features.parameters(), strict=True
        ):
            assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("NUMBER", "names an int; name a class, or a function"),
        ("number", "returns an int; it must return a torch.nn.Module"),
        ("Any", "is a class, but no torch.nn.Module|names a"),
        ("Plain(depth=3)", "cannot be made .*unexpected keyword argument 'depth'"),
        (
            "Plain(classes=7)",
            r"outputs of shape \(2, 7\) for 2 images, but the data have 10 classes",
        ),
        ("Rich", "has no layer called 'classifier'; .* for example head='fc'"),
        ("Rich(head='fcc')", "has no layer 'fcc'; did you mean 'fc'"),
        ("Rich(head='block')", "what 'block' gives is not what the network returns"),
        (
            "Faulty(fault='raises')",
            r"fails on images of shape \(2, 1, 8, 8\) \(ValueError: the sides",
        ),
        ("Faulty(fault='tuple')", "returns a tuple; return the logits alone"),
        ("Faulty(fault='nan')", "gives outputs that are not finite .* check its initial weights"),
        ("Faulty(fault='after')", "what 'classifier' gives is not what the network returns"),
        ("Faulty(fault='half')", "'classifier.weight' is float16; weights and statistics must be"),
        ("Faulty(fault='tied')", "are one tensor, which methods would count twice; untie them"),
        ("Faulty(fault='empty')", "the classifier has no parameters; cut at the last layer"),
        ("Downloads(how='url')", "tried to use the network or to start a program"),
        ("Downloads(how='program')", "give a network's pretrained weights as initial-weights"),
    ],
)
def test_a_network_that_cannot_be_used_gets_a_sentence(call: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        own(call)


def test_the_outputs_and_the_place_of_the_cut_are_refused_together() -> None:
    with pytest.raises(ConfigurationError) as raised:
        build(f"{HOME}:Rich", SHAPE, 7)
    outputs, head = raised.value.problems
    assert "7 classes" in outputs
    assert "head='fc'" in head


def test_a_head_that_cannot_be_widened_is_refused() -> None:
    model = own("Plain")
    assert isinstance(model.classifier, nn.Linear)
    with pytest.raises(ConfigurationError, match=r"ends with Tanh; let it end with torch\.nn"):
        own("tanh", extra=3)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("counts", "the buffer 'features.4.seen' holds whole numbers that change in training"),
        ("detaches", "no gradient reaches its features; does it detach them"),
        ("detached", "no gradient reaches its features; does it detach them"),
        ("infinite", "the gradient of 'classifier.weight' is not finite"),
        ("training", "fails in training mode (TypeError"),
    ],
)
def test_a_network_that_cannot_be_trained_gets_a_sentence(fault: str, sentence: str) -> None:
    model = own(f"Faulty(fault='{fault}')")
    assert any(sentence in problem for problem in examine(model, SHAPE, "model"))


def test_a_good_network_passes() -> None:
    for call in ("Plain", "Mapped", "Rich(head='fc')"):
        assert examine(own(call), SHAPE, "model") == []


def test_networks_of_torchvision_need_no_code() -> None:
    line = "torchvision.models:resnet18(num_classes=10, head='fc')"
    model = build(line, (3, 32, 32), 10)
    assert model.feature_dim == 512
    assert examine(model, (3, 32, 32), line) == []
