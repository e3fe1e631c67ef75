"""FedGen: what it is without its terms, both terms and the generator's loss by hand, refusals."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from torch import nn

from fedmirage.client.data import LocalData
from fedmirage.client.methods.fedgen import FedGenClient
from fedmirage.client.round import LocalRound
from fedmirage.client.train import train
from fedmirage.common.data.batches import Resident
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.memory import Memory, local_models
from fedmirage.common.methods._labels import SHARES
from fedmirage.common.methods.fedgen import GENERATOR, FedGen
from fedmirage.common.models.base import Model
from fedmirage.common.models.generators import FeatureMeans
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.common.wire.payload import LAYOUT, decode
from fedmirage.server.methods.fedgen import (
    FedGenServer,
    FedGenTeachers,
    agreement_loss,
    generator_loss,
)
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.strategy.average import Average
from fedmirage.server.strategy.context import ServerContext
from tests.support.facts import make_facts
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE
from tests.support.runs import SMALL, assert_same_bits, lines
from tests.support.strategies import Client

TINY = "fedgen(generator_steps=2, hidden=(4,), noise_dim=2)"
OFF = "generator_steps=1, classification_weight=0.0, logit_weight=0.0"
LN3 = math.log(3)


def own_models(folder: Path) -> list[bytes]:
    """Every client's own model, whole."""
    state = read_checkpoint(folder / "checkpoint.safetensors")
    found = local_models(folder / "memory" / state.token, state.round)
    return [array.tobytes() for _, arrays in found for array in arrays]


# Degenerate cases


def test_without_its_terms_it_is_fedavg_bit_for_bit(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **BASE)
    run_in_process(tmp_path / "fedgen", **BASE, methods=f"fedgen({OFF})")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedgen")


def test_without_its_terms_and_with_the_classifier_only_it_is_lg_fedavg(tmp_path: Path) -> None:
    run_in_process(tmp_path / "lg", **BASE, methods="lg-fedavg")
    run_in_process(tmp_path / "fedgen", **BASE, methods=f"fedgen(share='classifier', {OFF})")
    assert_same_bits(tmp_path / "lg", tmp_path / "fedgen")
    assert own_models(tmp_path / "lg") == own_models(tmp_path / "fedgen")


def test_the_first_round_has_no_generator_and_is_fedavgs(tmp_path: Path) -> None:
    settings = {**BASE, "rounds": 1}
    run_in_process(tmp_path / "fedavg", **settings)
    config = run_in_process(tmp_path / "fedgen", **settings, methods=TINY)
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedgen")
    assert "acts from round 2 on" in " ".join(config.cautions)


def test_beside_lg_fedavg_it_shares_what_lg_fedavg_shares(tmp_path: Path) -> None:
    alone = TINY.replace("fedgen(", "fedgen(share='classifier', ")
    run_in_process(tmp_path / "one", **BASE, methods=alone)
    run_in_process(tmp_path / "two", **BASE, methods=f"lg-fedavg, {TINY}")
    assert_same_bits(tmp_path / "one", tmp_path / "two")
    assert own_models(tmp_path / "one") == own_models(tmp_path / "two")


# The client's terms


def a_round(folder: Path, line: str, classifier: tuple[float, float]) -> LocalRound:
    """One step on x = 1 with label 0, for f(x) = x, logits (d_0 f, d_1 f), and a generator that
    gives 2 whatever its inputs; p(y) = (0, 1)."""
    config = configure(
        {"methods": line, "local_steps": 1, "batch_size": 1, "lr": 0.5, "momentum": 0.0}
    )
    model = Model(
        nn.Sequential(nn.Flatten(), nn.Linear(1, 1, bias=False)), nn.Linear(1, 2, bias=False), 1
    )
    from_arrays(model, [np.ones((1, 1), np.float32), np.array(classifier, np.float32)[:, None]])
    (method,) = config.method_list
    assert isinstance(method, FedGen)
    generator = method.build_generator(2, 1)
    for weight in generator.parameters():
        weight.data.zero_()
    generator.get_parameter("layers.output.bias").data.fill_(2.0)
    samples = Resident(torch.ones(1, 1, 1, 1), torch.tensor([0]))
    return LocalRound(
        number=2,
        partition=0,
        run=make_facts(config, model),
        model=model,
        data=LocalData(samples, (0.5,), (0.5,), np.array([1, 0])),
        received={GENERATOR: to_arrays(generator), SHARES: [np.array([0.0, 1.0])]},
        memory=Memory(folder, 2),
        lr=0.5,
    )


def one_step(local: LocalRound) -> tuple[dict[str, float], list[float], float]:
    """The terms, and (d_0, d_1) and a after the step."""
    (method,) = local.config.method_list
    client = FedGenClient(method)  # type: ignore[arg-type]
    client.begin(local)
    terms = train(local, [client])
    extractor, classifier = to_arrays(local.model)
    return terms, classifier[:, 0].tolist(), float(extractor[0, 0])


def test_a_step_with_the_classification_of_generated_features_by_hand(tmp_path: Path) -> None:
    """With d = (0, 0) every answer is (1/2, 1/2). The real sample, f = 1 and label 0, has the
    gradient (1/2 - 1, 1/2) f = (-1/2, 1/2). The generated f = 2 has label 1, since p(y) knows no
    other: (1/2, 1/2 - 1) * 2 = (1, -1), and 3 b_g / b = 6 times that with weight 3 and two features
    in a batch of one. With the factor 1/2 of round 2 the sum is (-1/2 + 3, 1/2 - 3) = (2.5, -2.5),
    and the step of 0.5 gives (-1.25, 1.25). The extractor is unmoved, for d = 0."""
    line = "fedgen(classification_weight=3.0, logit_weight=0.0, generated_batch=2, decay=0.5)"
    terms, classifier, extractor = one_step(a_round(tmp_path, line, (0.0, 0.0)))
    assert terms == pytest.approx(
        {"task": math.log(2), "generated.classification": 3 * math.log(2)}
    )
    assert classifier == pytest.approx([-1.25, 1.25])
    assert extractor == 1.0


def test_a_step_with_the_divergence_from_generated_features_by_hand(tmp_path: Path) -> None:
    """With d = (ln 3, 0) the model says (3/4, 1/4) of f = 1, and of the generated f = 2 it says
    (9/10, 1/10), its teacher here. The gradient at the logits is (3/4 - 1, 1/4) from the label 0
    and (3/4 - 9/10, 1/4 - 1/10) from the divergence, together (-0.4, 0.4). It is also that of d,
    for f = 1, while a has -0.4 ln 3. The teacher is detached, so that f = 2 moves nothing."""
    line = "fedgen(classification_weight=0.0, generated_batch=2)"
    terms, classifier, extractor = one_step(a_round(tmp_path, line, (LN3, 0.0)))
    apart = 0.9 * math.log(0.9 / 0.75) + 0.1 * math.log(0.1 / 0.25)
    assert terms == pytest.approx({"task": math.log(4 / 3), "generated.logits": apart}, rel=1e-5)
    assert classifier == pytest.approx([LN3 + 0.2, -0.2])
    assert extractor == pytest.approx(1 + 0.2 * LN3)


# The generator's loss


def test_the_agreement_counts_clients_by_their_share_in_the_label() -> None:
    """Two clients, two samples of the classes 0 and 1: the first client has 3/4 of class 0 and
    nothing of class 1. CE of class 0 is ln 2 for the first and ln 4 for the second client, CE of
    class 1 for the second ln 4/3: (3/4 ln 2 + 1/4 ln 4 + ln 4/3) / 2."""
    first = [[0.0, 0.0], [5.0, -5.0]]
    second = [[-LN3, 0.0], [-LN3, 0.0]]
    shares = torch.tensor([[0.75, 0.0], [0.25, 1.0]])
    found = agreement_loss(torch.tensor([first, second]), torch.tensor([0, 1]), shares)
    expected = (0.75 * math.log(2) + 0.25 * math.log(4) + math.log(4 / 3)) / 2
    assert float(found) == pytest.approx(expected)


@pytest.mark.parametrize("diversity", ["absolute", "squared"])
def test_the_whole_loss_of_the_generator_by_loops(diversity: str) -> None:
    torch.manual_seed(5)
    heads = [nn.Linear(3, 5).double() for _ in range(3)]  # wider than the three classes
    counts = np.array([[2.0, 0.0, 1.0], [6.0, 4.0, 0.0]])
    params = FedGen(
        student_weight=0.7,
        diversity_weight=0.3,
        temperature=2.0,
        diversity=diversity,  # type: ignore[arg-type]
    )
    generator = FeatureMeans(2, 3, 3).double()
    generator.means.data.normal_()
    noise, labels = torch.randn(4, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    found = generator_loss(
        params, FedGenTeachers(heads[:2], heads[2], counts), generator, noise, labels
    )

    features = generator.means[labels].detach()
    tau = counts / counts.sum(0)
    total = 0.0
    for at, label in enumerate(labels.tolist()):
        z = [head(features[at])[:3].detach().numpy() for head in heads]
        for client in range(2):
            total -= tau[client, label] * math.log(softmax(z[client])[label]) / 4
        mixed = softmax((tau[0, label] * z[0] + tau[1, label] * z[1]) / 2.0)
        student = softmax(z[2] / 2.0)
        total -= 0.7 * float((mixed * np.log(mixed / student)).sum()) / 3 / 4
    f, e = features.numpy(), noise.numpy()
    power = 1 if diversity == "absolute" else 2
    spread = sum(
        (np.abs(f[j] - f[k]) ** power).mean() * ((e[j] - e[k]) ** 2).mean()
        for j in range(4)
        for k in range(4)
    )
    assert found.item() == pytest.approx(total + 0.3 * math.exp(-spread / 16))


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


# The server


def a_server(line: str = TINY) -> FedGenServer:
    config = configure({"methods": line, "clients": 3})
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(1, 1)), nn.Linear(1, 3), 1)
    (method,) = config.method_list
    run = make_facts(config, model, classes=3)
    context = ServerContext(run, SimpleNamespace(model=model))  # type: ignore[arg-type]
    return FedGenServer(Average(to_arrays(model)), method, context)  # type: ignore[arg-type]


def replies(*counts: tuple[int, ...]) -> list[Any]:
    """One reply per client, with weights that depend on its number."""
    found = []
    for number, counted in enumerate(counts):
        weights = [
            np.full(shape, number + 1.0, np.float32) * np.arange(1, 1 + shape[0]).reshape(-1, 1)
            if len(shape) == 2
            else np.full(shape, 0.5 * number, np.float32)
            for shape in ((1, 1), (1,), (3, 1), (3,))
        ]
        arrays = [*(array.astype(np.float32) for array in weights), np.array(counted, np.float64)]
        result = FitRes(
            Status(Code.OK, ""),
            ndarrays_to_parameters(arrays),
            sum(counted),
            {LAYOUT: "shared:4 label-counts:1"},
        )
        found.append((Client(number), result))
    return found


def test_the_generator_does_not_depend_on_the_order_of_arrival() -> None:
    given = replies((5, 1, 0), (0, 2, 0), (1, 0, 0))
    one, other = a_server(), a_server()
    one.aggregate_fit(1, given, [])
    other.aggregate_fit(1, given[::-1], [])
    assert len(one.state.generator) > 0
    for a, b in zip(one.state.generator, other.state.generator, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("labels", "expected"), [("uniform", [0.5, 0.5, 0.0]), ("shares", [0.75, 0.25, 0.0])]
)
def test_a_class_that_nobody_has_is_never_drawn(labels: str, expected: list[float]) -> None:
    server = a_server(TINY.replace("fedgen(", f"fedgen(labels='{labels}', "))
    server.aggregate_fit(1, replies((5, 1, 0), (1, 1, 0)), [])
    assert server.state.shares[0].tolist() == expected


def test_a_client_that_trained_on_nothing_teaches_nothing() -> None:
    """The third client has no examples: the generator is that of the other two."""
    with_it, without = a_server(), a_server()
    with_it.aggregate_fit(1, replies((5, 1, 0), (1, 2, 0), (0, 0, 0)), [])
    without.aggregate_fit(1, replies((5, 1, 0), (1, 2, 0)), [])
    for a, b in zip(with_it.state.generator, without.state.generator, strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_generator_that_diverges_is_not_used(tmp_path: Path) -> None:
    """Adam's steps of 1e30 lead to infinite losses: every round is FedAvg's, with a note."""
    run_in_process(tmp_path / "fedavg", **BASE)
    line = TINY.replace("fedgen(", "fedgen(generator_lr=1e30, ")
    run_in_process(tmp_path / "fedgen", **BASE, methods=line)
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedgen")
    assert [line["methods"]["fedgen.trained"] for line in lines(tmp_path / "fedgen")] == [0, 0]
    (summary,) = lines(tmp_path / "fedgen", "summary")
    assert "fedgen keeps its last generator" in " ".join(summary["notes"])


def test_only_the_classifier_and_the_counts_cross_the_wire(tmp_path: Path) -> None:
    """The replies are inspected on their way: with lenet-bn, its 8,906 weights and ten counts."""
    seen: list[list[tuple[int, ...]]] = []

    def intercept(node: int, reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            (record,) = reply.content.array_records.values()
            seen.append([array.shape for array in decode([part.data for part in record.values()])])
        return reply

    settings = {**SMALL, "rounds": 2, "model": "lenet-bn", "server_threads": 1}
    line = TINY.replace("fedgen(", "fedgen(share='classifier', ")
    run_in_process(tmp_path, intercept, **settings, methods=line)
    shapes = [(64, 128), (64,), (10, 64), (10,), (10,)]
    assert seen == [shapes] * 8
    assert sum(math.prod(shape) for shape in shapes[:4]) == 8_906
    assert lines(tmp_path)[-1]["accuracy"] is None


# Refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"secagg": "on"}, "fedgen needs each client's classifier and label counts one by one"),
        ({"dp": "central(clip=1, noise=1)"}, "fedgen sends 'label-counts' beside the model"),
        ({"methods": "fedper, fedgen"}, "fedgen needs the classifier, but fedper shares only"),
        ({"methods": "local, fedgen"}, "fedgen needs the classifier, but local shares only"),
        ({"methods": "fedper, fedgen(share='classifier')"}, "each decide what is shared"),
    ],
)
def test_it_is_refused_with_a_reason(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({"methods": "fedgen", **settings})
    assert words in str(refusal.value)


def test_somebody_elses_strategy_does_not_know_the_classifiers() -> None:
    with pytest.raises(FedmirageError, match="write --methods fedgen"):
        FedGenServer(Average([]))


def test_variants_are_sets_of_values_and_written_keys_win() -> None:
    assert FedGen(variant="code").classification_weight == 10.0
    tables = FedGen(variant="fedmd-cg", temperature=3.0)
    assert (tables.share, tables.hidden, tables.temperature) == ("classifier", (512, 256), 3.0)
