"""FedMD-CG on the server: the crossed losses by brute force, one step by hand, and who counts."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from flwr.common import Parameters, parameters_to_ndarrays
from scipy.special import softmax
from scipy.stats import entropy

from fedmirage.common.learning.optimizers import Adam
from fedmirage.common.models.generators import FeatureGenerator
from fedmirage.server.methods._pairs.losses import (
    GeneratorInputs,
    Pair,
    Teachers,
    compare_by_divergence,
    crossed_loss,
    distil,
    mean_logits_loss,
)
from fedmirage.server.methods.fedmd_cg import compare_by_product
from fedmirage.server.strategy.wrapper import load_state, save_state
from tests.support.fedmdcg import tiny_model, tiny_reply, tiny_server
from tests.support.strategies import Client, Manager

LN2 = math.log(2)
BATCH, CLASSES, CLIENTS = 4, 3, 2


def random_pair(seed: int) -> Pair:
    torch.manual_seed(seed)
    generator = FeatureGenerator(2, CLASSES, 5)
    return Pair(torch.nn.Linear(5, CLASSES), generator, CLASSES).double().eval()


def setting() -> tuple[Pair, Teachers, GeneratorInputs]:
    """An averaged pair, two clients' pairs, and one batch with different noise for each."""
    pair, *clients = (random_pair(seed) for seed in range(1 + CLIENTS))
    shares = torch.tensor([[0.25, 0.5, 1.0], [0.75, 0.5, 0.0]], dtype=torch.float64)
    noises = [torch.randn(BATCH, 2, dtype=torch.float64) for _ in range(1 + CLIENTS)]
    return (
        pair,
        Teachers(clients, [0.3, 0.7], shares),
        GeneratorInputs(torch.tensor([0, 2, 1, 0]), noises[0], noises[1:]),
    )


def logits(classifier: Pair, generator: Pair, noise: torch.Tensor, labels: torch.Tensor) -> Any:
    with torch.no_grad():
        return classifier.classifier(generator.generator(noise, labels)).numpy()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 10.0])
@pytest.mark.parametrize("product", [False, True])
def test_the_crossed_loss_sample_by_sample(
    reverse: bool, temperature: float, product: bool
) -> None:
    """scipy's entropy(p, q) is KL(p || q). tau is looked up by client and label."""
    pair, teachers, inputs = setting()
    expected = 0.0
    for index, (client, noise) in enumerate(zip(teachers.pairs, inputs.noises, strict=True)):
        taught = logits(client, client, noise, inputs.labels)
        students = [
            logits(pair, pair, inputs.noise, inputs.labels),
            logits(pair, client, noise, inputs.labels),
            logits(client, pair, inputs.noise, inputs.labels),
        ]
        for number, student in enumerate(students):
            for row, label in enumerate(inputs.labels.tolist()):
                p, q = softmax(taught[row] / temperature), softmax(student[row] / temperature)
                value = entropy(q, p) if reverse else entropy(p, q)
                if product and number == 2:
                    value = -float(p @ q)
                expected += float(teachers.shares[index, label]) * value / BATCH
    compare = compare_by_divergence(temperature, reverse)
    crossed = compare_by_product(temperature) if product else compare
    found = crossed_loss(pair, teachers, inputs, compare, crossed)
    assert found.item() == pytest.approx(expected)


def test_each_crossed_loss_trains_what_it_should() -> None:
    """L1 trains both halves, L2 the classifier, L3 the generator; the clients' pairs never move."""
    pair, teachers, inputs = setting()
    for teacher in teachers.pairs:
        teacher.requires_grad_(False)

    def nothing(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        return 0.0 * student.sum(1)

    compare = compare_by_divergence(1.0, False)
    crossed_loss(pair, teachers, inputs, nothing, compare).backward()
    assert float(pair.classifier.weight.grad.abs().sum()) == 0
    assert all(float(w.grad.abs().sum()) > 0 for w in [pair.generator.layers.output.weight])
    assert all(weight.grad is None for one in teachers.pairs for weight in one.parameters())


def test_the_mean_of_the_logits_is_weighted_by_the_clients() -> None:
    pair, teachers, inputs = setting()
    taught = sum(
        weight * logits(client, client, noise, inputs.labels)
        for client, weight, noise in zip(
            teachers.pairs, teachers.weights, inputs.noises, strict=True
        )
    )
    student = logits(pair, pair, inputs.noise, inputs.labels)
    expected = entropy(softmax(taught / 10, axis=1), softmax(student / 10, axis=1), axis=1).mean()
    found = mean_logits_loss(pair, teachers, inputs, compare_by_divergence(10.0, False))
    assert found.item() == pytest.approx(float(expected))


def aggregate(server: Any, *replies: tuple[int, Any]) -> tuple[list[np.ndarray], dict[str, Any]]:
    aggregated, metrics = server.aggregate_fit(
        1, [(Client(number), reply) for number, reply in replies], []
    )
    assert isinstance(aggregated, Parameters)
    return parameters_to_ndarrays(aggregated), metrics


def test_one_step_by_hand() -> None:
    """Two clients with d = (ln 2, 0); m_0 is 0 and 2, so that their answers are (1, 1)/2 and
    (4, 1)/5. The average has m_0 = 1 and answers s = (2, 1)/3. They hold 3 and 1 samples of class
    0 and none of class 1: tau = 3/4 and 1/4, and only class 0 is drawn.

    All classifiers are equal, so that L2 is 0 and flat, and L3 has L1's value. By m_0, L1 and L3
    each have the gradient sum_i tau_i (s - p_i) d = (3/4 (2/3 - 1/2) + 1/4 (2/3 - 4/5)) ln2 =
    11/120 ln2; by d, L1 alone has 11/120 (1, -1) times the feature 1. Adam keeps a tenth of the
    gradients, and its first step is the learning rate against their signs.
    """
    line = "fedmd-cg(temperature=1.0, server_steps=1, server_lr=0.25, adam_weight_decay=0.0)"
    server = tiny_server(line, tiny_model(1, (LN2, 0), (0, 5)))
    first, second = tiny_reply((LN2, 0), (0, 5), (3, 0)), tiny_reply((LN2, 0), (2, 5), (1, 0))
    (classifier, means), metrics = aggregate(server, (0, first), (1, second))
    loss = 2 * (
        3 / 4 * (math.log(3 / 4) + math.log(3 / 2)) / 2
        + 1 / 4 * (4 / 5 * math.log(6 / 5) + 1 / 5 * math.log(3 / 5))
    )
    assert metrics["fedmd-cg.server_loss"] == pytest.approx(loss, rel=1e-5)
    steps, by_classifier, by_means, *_ = server.state.moments
    assert steps.tolist() == [1]
    assert by_classifier[:, 0].tolist() == pytest.approx([11 / 1200, -11 / 1200], rel=1e-4)
    assert by_means[:, 0].tolist() == pytest.approx([2 * 11 / 1200 * LN2, 0], rel=1e-4)
    assert classifier[:, 0].tolist() == pytest.approx([LN2 - 0.25, 0.25], rel=1e-4)
    assert means[:, 0].tolist() == pytest.approx([1 - 0.25, 5], rel=1e-4)
    assert server.state.shares[0].tolist() == [1, 0]


def test_tau_belongs_to_clients_and_not_to_the_order_of_arrival() -> None:
    """The counts of the two clients differ by 3 to 1; whoever answers first, the bits are equal."""
    line = "fedmd-cg(temperature=1.0, server_steps=3)"
    replies = [
        (4, tiny_reply((LN2, 0), (0, 5), (3, 1))),
        (7, tiny_reply((0, LN2), (2, 4), (1, 2))),
        (11, tiny_reply((LN2, LN2), (1, 1), (0, 5))),
    ]
    results = []
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        server = tiny_server(line, tiny_model(1, (LN2, 0), (0, 5)))
        results.append(aggregate(server, *(replies[position] for position in order))[0])
    for other in results[1:]:
        assert [array.tobytes() for array in other] == [array.tobytes() for array in results[0]]
    swapped = tiny_server(line, tiny_model(1, (LN2, 0), (0, 5)))
    exchanged = [
        (4, tiny_reply((LN2, 0), (0, 5), (1, 2))),
        (7, tiny_reply((0, LN2), (2, 4), (3, 1))),
        replies[2],
    ]
    assert any(
        not np.array_equal(one, other)
        for one, other in zip(aggregate(swapped, *exchanged)[0], results[0], strict=True)
    )


def test_a_client_that_trained_on_nothing_teaches_nothing() -> None:
    """It sends its counts and an untrained pair, with the weight 0 in everything."""
    line = "fedmd-cg(temperature=1.0, server_steps=2)"
    first, second = tiny_reply((LN2, 0), (0, 5), (3, 1)), tiny_reply((0, LN2), (2, 4), (1, 2))
    idle = tiny_reply((9, 9), (9, 9), (1, 0), examples=0)
    two, three = (tiny_server(line, tiny_model(1, (LN2, 0), (0, 5))) for _ in range(2))
    one, _ = aggregate(two, (0, first), (2, second))
    other, _ = aggregate(three, (0, first), (1, idle), (2, second))
    assert [array.tobytes() for array in one] == [array.tobytes() for array in other]
    assert np.array_equal(two.state.shares, three.state.shares)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_a_class_that_nobody_has(smoothing: float) -> None:
    """Without smoothing it is not drawn, so that nothing of it moves; nothing is 0 / 0 either way.

    With the code's smoothing it is drawn, and clients that never saw it teach it.
    """
    keys = f"count_smoothing={smoothing}, adam_weight_decay=0.0"
    line = f"fedmd-cg(temperature=1.0, server_steps=5, {keys})"
    server = tiny_server(line, tiny_model(1, (LN2, 0), (0, 5)))
    replies = [tiny_reply((LN2, 0), (0, 3), (3, 0)), tiny_reply((0, LN2), (2, 7), (1, 0))]
    (_, means), _ = aggregate(server, *enumerate(replies))
    assert np.isfinite(means).all()
    expected = {0.0: [1, 0], 1.0: [6 / 8, 2 / 8]}[smoothing]
    assert server.state.shares[0].tolist() == pytest.approx(expected)
    assert (float(means[1, 0]) != 5) == bool(smoothing)


def test_what_is_not_finite_is_left_out_with_a_note() -> None:
    """The plain average is kept, Adam forgets the attempt, and the run goes on."""
    line = "fedmd-cg(temperature=1.0, server_steps=3, server_lr=1e38)"
    server = tiny_server(line, tiny_model(1, (LN2, 0), (0, 5)))
    said: list[tuple[int, str]] = []
    object.__setattr__(server.context, "note", lambda number, text: said.append((number, text)))
    replies = [tiny_reply((LN2, 0), (0, 5), (3, 1)), tiny_reply((LN2, 1), (2, 5), (1, 3))]
    (classifier, means), metrics = aggregate(server, *enumerate(replies))
    assert classifier[:, 0].tolist() == pytest.approx([LN2, 0.5])
    assert means[:, 0].tolist() == [1, 5]
    assert metrics["fedmd-cg.distilled"] == 0
    assert server.state.moments == []
    ((number, text),) = said
    assert number == 1
    assert "keeps the plain average" in text
    assert "lower server_lr" in text


@pytest.mark.parametrize("line", ["fedmd-cg(aggregation='ave')", "fedmd-cg(server_steps=0)"])
def test_ave_leaves_the_average_alone_and_still_counts_labels(line: str) -> None:
    server = tiny_server(line, tiny_model(1, (LN2, 0), (0, 5)))
    replies = [
        tiny_reply((1, 0), (0, 5), (3, 0), examples=3),
        tiny_reply((5, 0), (4, 5), (0, 1), examples=1),
    ]
    (classifier, means), metrics = aggregate(server, *enumerate(replies))
    assert classifier[:, 0].tolist() == [2, 0]  # (3 * 1 + 5) / 4
    assert means[:, 0].tolist() == [1, 5]
    assert server.state.shares[0].tolist() == [0.75, 0.25]
    assert "fedmd-cg.server_loss" not in metrics


def test_p_of_y_goes_down_and_nothing_else() -> None:
    """Before anything is known, all classes are alike; a resumed server knows what it knew."""
    line = "fedmd-cg(aggregation='ave')"
    server, resumed = (tiny_server(line, tiny_model(1, (1, 0), (0, 5))) for _ in range(2))

    def sent(one: Any) -> list[float]:
        parameters = one.inner.initialize_parameters(None)
        (_, ins), *_ = one.configure_fit(1, parameters, Manager())
        assert ins.config["layout"] == "shared:2 label-shares:1"
        numbers: list[float] = parameters_to_ndarrays(ins.parameters)[-1].tolist()
        return numbers

    assert sent(server) == [0.5, 0.5]
    aggregate(server, (0, tiny_reply((1, 0), (0, 5), (3, 1))))
    load_state(resumed, save_state(server))
    assert sent(resumed) == [0.75, 0.25]


def test_running_statistics_are_estimated_anew_by_distillation() -> None:
    """The pair is in training mode: batch norm sees features of labels from p(y), and its running
    statistics move; those of the clients' generators do not."""
    pair, teachers, inputs = setting()
    norm = pair.generator.layers.hidden1.norm
    before = norm.running_mean.clone()
    theirs = [
        one.state_dict()["generator.layers.hidden1.norm.running_mean"] for one in teachers.pairs
    ]
    kept = [mean.clone() for mean in theirs]
    optimizer = Adam(pair.parameters(), lr=1e-3)
    compare = compare_by_divergence(10.0, False)
    distil(pair, lambda: crossed_loss(pair, teachers, inputs, compare, compare), optimizer, 3)
    assert not torch.equal(before, norm.running_mean)
    assert all(torch.equal(one, other) for one, other in zip(theirs, kept, strict=True))
