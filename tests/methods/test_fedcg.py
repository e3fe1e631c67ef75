"""FedCG: LG-FedAvg without its loss, both phases of a client by hand, what travels, refusals."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message
from torch import Tensor, nn

from fedmirage.client.data import LocalData
from fedmirage.client.methods.fedcg import FedCgClient
from fedmirage.client.methods.fedcg.client import discriminator_loss, generator_loss
from fedmirage.client.round import LocalRound
from fedmirage.client.train import train
from fedmirage.common.data.batches import Resident
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.methods.fedcg import DISCRIMINATOR, GENERATOR, FedCg
from fedmirage.common.models.base import Model
from fedmirage.common.models.generators import FeatureDiscriminator, FeatureMeans
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.common.wire.payload import decode
from fedmirage.server.methods.fedcg import FedCgServer
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.strategy.average import Average
from tests.support.facts import make_facts
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, BATCH_NORM
from tests.support.rules import last_local_models, named
from tests.support.runs import lines, weights

TINY = "fedcg(server_steps=2, noise_dim=2)"
AVERAGED = "fedcg(aggregation='ave', noise_dim=2)"
LN2 = math.log(2)


# Degenerate cases


def test_without_its_loss_it_is_lg_fedavg_bit_for_bit(tmp_path: Path) -> None:
    """Both have batch norm, so that batches of one are left out of both."""
    settings = {**BASE, "model": BATCH_NORM}
    run_in_process(tmp_path / "lg", **settings, methods="lg-fedavg")
    line = AVERAGED.replace("fedcg(", "fedcg(feature_weight=0.0, ")
    config = run_in_process(tmp_path / "fedcg", **settings, methods=line)
    network = [name.startswith(("features", "classifier")) for name in named(config)]
    for one, other in zip(
        last_local_models(tmp_path / "lg")[0], last_local_models(tmp_path / "fedcg")[0], strict=True
    ):
        kept = [array for array, counts in zip(other, network, strict=True) if counts]
        assert [array.tobytes() for array in one] == [array.tobytes() for array in kept]
    one, other = weights(tmp_path / "lg"), weights(tmp_path / "fedcg")
    assert [array.tobytes() for array in one] == [array.tobytes() for array in other[: len(one)]]


def test_without_steps_of_the_server_it_only_averages(tmp_path: Path) -> None:
    run_in_process(tmp_path / "ave", **BASE, methods=AVERAGED)
    run_in_process(tmp_path / "none", **BASE, methods="fedcg(server_steps=0, noise_dim=2)")
    run_in_process(tmp_path / "kd", **BASE, methods=TINY)
    crossed = TINY.replace("fedcg(", "fedcg(aggregation='kdc', ")
    run_in_process(tmp_path / "kdc", **BASE, methods=crossed)
    one, other, *distilled = (
        [array.tobytes() for array in weights(tmp_path / name)]
        for name in ("ave", "none", "kd", "kdc")
    )
    assert one == other
    assert one not in distilled
    assert distilled[0] != distilled[1]


# Both phases by hand


class Line(nn.Module):
    """A discriminator with the logit w f, whatever the label."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(1))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        return self.slope * features[:, 0]


def a_round(folder: Path, line: str) -> LocalRound:
    """One step on x = 1 with label 0, for E(x) = x, logits (0, 0), G(z, y) = (3, 7)[y]."""
    config = configure({"methods": line, "local_steps": 1, "batch_size": 1, "lr": 0.5, "rounds": 3})
    model = Model(
        nn.Sequential(nn.Flatten(), nn.Linear(1, 1, bias=False)), nn.Linear(1, 2, bias=False), 1
    )
    model.add_module(GENERATOR, FeatureMeans(4, 2, 1))
    model.add_module(DISCRIMINATOR, Line())
    values = ([[1.0]], [[0.0], [0.0]], [[3.0], [7.0]], [0.0])
    from_arrays(model, [np.array(value, np.float32) for value in values])
    samples = Resident(torch.ones(1, 1, 1, 1), torch.tensor([0]))
    return LocalRound(
        number=2,
        partition=0,
        run=make_facts(config, model),
        model=model,
        data=LocalData(samples, (0.5,), (0.5,), np.array([1, 0])),
        received={},
        memory=Memory(folder, 2),
        lr=0.5,
    )


def test_a_round_of_a_client_by_hand(tmp_path: Path) -> None:
    """Phase 1: in round 2 of 3 gamma is 2 (1/2)^3 = 1/4, and the distance (a - 3)^2 / 4 = 1 has the
    gradient 2 (1 - 3) / 4 = -1 in a, to which C = 0 adds nothing: a = 1 + 0.5. The gradient of C
    is (1/2 - 1, 1/2), so that it becomes (1/4, -1/4).

    Phase 2: the real feature is 1.5, the generated one 3, and with w = 0 the discriminator's loss
    is 2 ln 2, with the gradient (-1.5 + 3) / 2 > 0. Adam's first step is its rate, whatever the
    length of the gradient: w = -0.1. The generator then finds a loss of log(1 + e^0.3) that grows
    with its feature, so that it makes a step of 0.1 down, towards the real one; for label 1 it
    stays."""
    line = "fedcg(feature_weight=2.0, ramp='cubic', adversary_lr=0.1)"
    local = a_round(tmp_path, line)
    (method,) = local.config.method_list
    assert isinstance(method, FedCg)
    client = FedCgClient(method)
    client.begin(local)
    terms = train(local, [client])
    assert terms == pytest.approx({"task": LN2, "generated.features": 1.0})
    sections = client.end(local)
    extractor, classifier, means, slope = to_arrays(local.model)
    assert float(extractor[0, 0]) == pytest.approx(1.5)
    assert classifier[:, 0].tolist() == pytest.approx([0.25, -0.25])
    assert slope[0] == pytest.approx(-0.1, rel=1e-4)
    assert means[:, 0].tolist() == pytest.approx([2.9, 7.0], rel=1e-5)
    assert local.report["term.adversary.discriminator"] == pytest.approx(2 * LN2)
    assert local.report["term.adversary.generator"] == pytest.approx(
        math.log(1 + math.exp(0.3)), rel=1e-4
    )
    assert sections["label-counts"][0].tolist() == [1, 0]


def test_losses_of_the_adversaries_by_brute_force() -> None:
    real, generated = [0.3, -2.0], [1.5, 0.0]

    def probability(logit: float) -> float:
        return 1 / (1 + math.exp(-logit))

    caught = sum(
        -math.log(probability(r)) - math.log(1 - probability(g))
        for r, g in zip(real, generated, strict=True)
    )
    deceived = sum(-math.log(probability(g)) for g in generated)
    found = discriminator_loss(torch.tensor(real), torch.tensor(generated))
    assert float(found) == pytest.approx(caught / 2)
    assert float(generator_loss(torch.tensor(generated))) == pytest.approx(deceived / 2)
    certain = discriminator_loss(torch.tensor([-200.0]), torch.tensor([200.0]))
    assert float(certain) == 400  # the logarithm of a rounded 0 would be infinite


def test_gamma_grows_from_nothing() -> None:
    """The sigmoid: p = 1/2 in round 26 gives 2 / (1 + e^-5) - 1, and from round 51 on p is 1."""
    growth = FedCg().growth
    assert [growth(1, 9), growth(26, 9)] == pytest.approx([0, 2 / (1 + math.exp(-5)) - 1])
    assert growth(51, 9) == growth(80, 9) == pytest.approx(0.99990921)
    assert [FedCg(ramp="cubic").growth(r, 5) for r in (1, 3, 5)] == [0, 0.125, 1]
    assert FedCg(ramp="cubic").growth(1, 1) == 0


def test_the_discriminator_sees_the_label_or_is_linear() -> None:
    features, labels = torch.randn(3, 4), torch.tensor([0, 1, 2])
    conditional, plain = FeatureDiscriminator(4, 3), FeatureDiscriminator(4, 0)
    assert not torch.equal(conditional(features, labels), conditional(features, labels.flip(0)))
    assert torch.equal(plain(features, labels), plain(features, labels.flip(0)))
    with torch.no_grad():
        offset = plain(torch.zeros(3, 4), labels)
        twice = plain(2 * features, labels)
        torch.testing.assert_close(twice - offset, 2 * (plain(features, labels) - offset))


@pytest.mark.parametrize(
    ("labels", "expected"), [("uniform", [0.5, 0.0, 0.5]), ("shares", [0.75, 0.0, 0.25])]
)
def test_the_server_draws_no_label_of_a_class_that_nobody_has(
    labels: str, expected: list[float]
) -> None:
    server = FedCgServer(Average([]), FedCg.model_validate({"labels": labels}))
    counts = np.array([[4.0, 0.0, 2.0], [2.0, 0.0, 0.0]])
    assert server.label_distribution(counts).tolist() == expected


# What travels and what stays


def test_extractor_and_discriminator_never_leave_their_client(tmp_path: Path) -> None:
    """The replies are inspected on their way: their arrays are those of classifier and generator,
    and the label counts."""
    seen: list[list[tuple[int, ...]]] = []

    def intercept(node: int, reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            (record,) = reply.content.array_records.values()
            seen.append([array.shape for array in decode([part.data for part in record.values()])])
        return reply

    config = run_in_process(tmp_path, intercept, **BASE, methods=TINY)
    sent, _ = read_arrays(tmp_path / "model.safetensors")
    assert {name.partition(".")[0] for name in sent} == {"classifier", "generator"}
    assert seen == [[*(array.shape for array in weights(tmp_path)), (10,)]] * 8
    assert len(weights(tmp_path)) == len(sent)
    parts = {name.partition(".")[0] for name in named(config)}
    assert parts == {"features", "classifier", "generator", "discriminator"}
    assert lines(tmp_path)[-1]["accuracy"] is None


def test_a_client_starts_with_the_global_pair_and_its_own_discriminator(tmp_path: Path) -> None:
    """In round 2 nothing can move (the rates are 1e-30), so that a client's pair is the global one
    of round 1 and the rest is its own of round 1."""
    settings = {**BASE, "lr_decay": 1e-30, "keep_models": "all"}
    line = "fedcg(aggregation='ave', noise_dim=2, adversary_lr=1e-30)"
    config = run_in_process(tmp_path, **settings, methods=line)
    token = read_checkpoint(tmp_path / "checkpoint.safetensors").token
    shared = read_arrays(tmp_path / "models" / "round-00001.safetensors")[0]
    then, now = (
        Memory(tmp_path / "memory" / token / "client-00001", before).get(LOCAL_MODEL)
        for before in (2, 3)
    )
    assert then is not None
    assert now is not None
    for name, old, new in zip(named(config), then, now, strict=True):
        if "running" not in name:
            expected = shared.get(name, old)
            np.testing.assert_allclose(new, expected, rtol=0, atol=1e-7)


def test_clients_that_join_late_say_so(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**BASE, "rounds": 3, "participation": 0.5}, methods=AVERAGED)
    present: set[int] = set()
    for line in lines(tmp_path):
        for client in line["clients"]:
            if line["round"] > 1:
                late = float(client["partition"] not in present)
                assert (client["fedcg.joined_late"], client["fedcg.memory_lost"]) == (late, 0)
        present |= {client["partition"] for client in line["clients"]}
    assert len(present) > 2


def test_label_counts_are_sent_only_if_they_are_used(tmp_path: Path) -> None:
    assert FedCg(aggregation="ave").up == FedCg(server_steps=0).up == ()
    assert [section.name for section in FedCg().up] == ["label-counts"]
    run_in_process(tmp_path / "kd", **BASE, methods=TINY)
    run_in_process(tmp_path / "ave", **BASE, methods=AVERAGED)
    more, less = (lines(tmp_path / name)[-1]["bytes_up"] for name in ("kd", "ave"))
    assert more - less >= 4 * 10 * 8  # four clients, ten counts of eight bytes


def test_a_secure_sum_gives_nearly_the_same_pair(tmp_path: Path) -> None:
    """One round, for Adam's steps of a later one magnify what was rounded."""
    settings = {**BASE, "rounds": 1}
    run_in_process(tmp_path / "plain", **settings, methods=AVERAGED)
    run_in_process(tmp_path / "secure", **settings, methods=AVERAGED, secagg="on")
    for one, other in zip(weights(tmp_path / "plain"), weights(tmp_path / "secure"), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_diagnostics_have_the_classifiers_loss_on_generated_features(tmp_path: Path) -> None:
    run_in_process(tmp_path, **BASE, methods=TINY, diagnostics=True)
    assert all(line["methods"]["fedcg.generated_loss"] > 0 for line in lines(tmp_path))


@pytest.mark.parametrize("line", [TINY, "fedcg(variant='fedmd-cg', server_steps=2)"])
def test_a_client_with_one_sample_trains_nothing(tmp_path: Path, line: str) -> None:
    """The generator has batch norm, which cannot learn from one sample."""
    settings = {**BASE, "partition": "classes(per_client=1, samples=1)"}
    run_in_process(tmp_path, **settings, methods=line)
    last = lines(tmp_path)[-1]
    assert last["refused"] == []
    assert [client["examples"] for client in last["clients"]] == [0] * 4


def test_beside_vhl_no_batch_of_one_reaches_the_generator() -> None:
    """VHL's images accompany even a single sample through the model, but not through the
    generator: seven samples in batches of six are one batch there."""
    config = configure({"methods": TINY, "batch_size": 6, "local_epochs": 1})
    model = Model(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(1)), nn.Linear(1, 2), 1)
    samples = Resident(torch.ones(7, 1, 1, 1), torch.zeros(7, dtype=torch.int64))
    data = LocalData(samples, (0.5,), (0.5,), np.array([7, 0]), accompanied=True)
    local = LocalRound(
        number=1,
        partition=0,
        run=make_facts(config, model),
        model=model,
        data=data,
        received={},
        memory=Memory(Path("nowhere"), 1),
        lr=0.1,
    )
    assert sorted(len(labels) for _, labels in data.batches(local)) == [1, 6]
    assert [len(labels) for _, labels in data.batches(local, "generator.")] == [6]


# Refusals and variants


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"secagg": "on"}, "only sums; write fedcg(aggregation='ave')"),
        ({"methods": "fedcg(aggregation='kdc')", "secagg": "on"}, "fedcg needs each client's"),
        ({"dp": "central(clip=1, noise=1)"}, "fedcg sends 'label-counts' beside the model"),
        (
            {"methods": AVERAGED, "dp": "central(clip=1, noise=1)"},
            "fedcg shares a generator with batch norm, whose statistics no noise covers",
        ),
        ({"methods": "scaffold, fedcg"}, "scaffold needs the whole model, but fedcg shares only"),
        ({"methods": "fedcg, fedmd-cg"}, "each decide what is shared"),
        ({"methods": "fedcg, fedavgm"}, "write fedavgm left of fedcg"),
    ],
)
def test_it_is_refused_with_a_reason(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({"methods": "fedcg", **settings})
    assert words in str(refusal.value)


def test_the_variant_of_fedmdcgs_tables() -> None:
    tables = FedCg(variant="fedmd-cg", server_steps=50)
    assert (tables.discriminator, tables.temperature, tables.server_steps) == ("plain", 10.0, 50)
