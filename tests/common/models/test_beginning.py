"""The weights that a network begins with, and those that stay as they are."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models.beginning import begin_with, freeze
from fedmirage.common.models.factory import build
from fedmirage.common.wire.manifest import Manifest
from tests.support import nets

SHAPE = (1, 8, 8)
RICH = "tests.support.nets:Rich(head='fc')"


def write(path: Path, **changes: torch.Tensor | None) -> Path:
    """Weights as torchvision or timm would publish them: those of a whole network, by its names."""
    torch.manual_seed(3)
    state = {**nets.Rich().state_dict(), **{n.replace("_", "."): t for n, t in changes.items()}}
    save_file({name: tensor for name, tensor in state.items() if tensor is not None}, path)
    return path


def test_weights_are_found_by_the_names_of_the_network_itself(tmp_path: Path) -> None:
    torch.manual_seed(3)
    trained, model = nets.Rich(), build(RICH, SHAPE, 10)
    begin_with(model, write(tmp_path / "weights.safetensors"))
    images = torch.randn(2, *SHAPE)
    assert torch.equal(model.eval()(images), trained.eval()(images))
    assert model.remarks == []


def test_a_head_of_another_size_is_left_as_the_seed_gives_it(tmp_path: Path) -> None:
    model, before = build(RICH, SHAPE, 10), build(RICH, SHAPE, 10)
    path = write(tmp_path / "w.safetensors", fc_weight=torch.zeros(1000, 4), fc_bias=None)
    begin_with(model, path)
    assert torch.equal(model.classifier.weight, before.classifier.weight)
    assert not torch.equal(model.features.stem.weight, before.features.stem.weight)
    assert "'fc.weight' of this shape, so the classifier begins as the seed" in model.remarks[0]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"stem_weight": None}, "lacks 'stem.weight'; it holds 'block.bias'"),
        ({"stem_weight": torch.zeros(5)}, r"'stem.weight' has shape \(5,\); the network's has"),
        ({"stem_bias": torch.full((4,), torch.nan)}, "has values that are not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    changes: dict[str, torch.Tensor | None], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        begin_with(build(RICH, SHAPE, 10), write(tmp_path / "w.safetensors", **changes))


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_text("not arrays")
    for name in ("w", "none"):
        with pytest.raises(ConfigurationError, match="initial-weights: "):
            begin_with(build(RICH, SHAPE, 10), tmp_path / f"{name}.safetensors")


# Freezing


def test_frozen_weights_are_no_longer_trainable_and_their_norms_rest() -> None:
    model = freeze(build(RICH, SHAPE, 10), "features.*")
    assert [name for name, weight in model.named_parameters() if weight.requires_grad] == [
        "classifier.weight",
        "classifier.bias",
    ]
    manifest = Manifest.of(model)
    assert manifest.weights.names == ("classifier.weight", "classifier.bias")
    assert manifest.statistics.names == ()
    assert sum(entry.fixed for entry in manifest) == len(manifest) - 2
    model.train()
    norm, drop = model.features.norm, model.features.drop
    assert isinstance(norm, nn.BatchNorm2d)
    assert (norm.training, drop.training, model.training) == (False, True, True)


@pytest.mark.parametrize("pattern", ["stem.*", "features.stem.*", "nothing.here, stem.*"])
def test_names_of_the_network_itself_match_too(pattern: str) -> None:
    if pattern.startswith("nothing"):
        with pytest.raises(ConfigurationError, match=r"freeze='nothing\.here' matches no weight"):
            freeze(build(RICH, SHAPE, 10), pattern)
        return
    model = freeze(build(RICH, SHAPE, 10), pattern)
    assert model.fixed == {"features.stem.weight", "features.stem.bias"}
    assert model.features.norm.training


def test_freezing_everything_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="leaves nothing to train"):
        freeze(build("mlp", SHAPE, 10), "features.*, classifier.*")
