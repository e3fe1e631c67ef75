"""FedMD-CG on the client: both phases by hand, the placebo, the moving average, the cache."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedmirage.client.methods._pairs import frozen_network
from fedmirage.client.methods.fedmd_cg import FedMdCgClient
from fedmirage.client.methods.fedmd_cg.cache import cached_batches
from fedmirage.client.train import train
from fedmirage.common.memory import Memory
from fedmirage.common.methods.fedmd_cg import FedMdCg
from fedmirage.common.wire.manifest import to_arrays
from tests.support.fedmdcg import column, tiny_config, tiny_model, tiny_round

LN2 = math.log(2)


def visit(local: Any) -> tuple[dict[str, float], list[np.ndarray]]:
    """A whole round of the client half; returns the terms of the local model, and the counts."""
    (params,) = local.config.method_list
    objective = FedMdCgClient(params)
    objective.begin(local)
    terms = train(local, [objective])
    sections = objective.end(local)
    local.memory.close()
    return terms, sections["label-counts"]


def test_the_first_phase_by_hand(tmp_path: Path) -> None:
    """One sample x = 1 of class 0, a = 1, d = (ln 2, 0), and the server's m = (2, 5).

    The softmax of (f ln 2, 0) is (2, 1)/3 at f = F(x) = 1, and (4, 1)/5 at f = m_0 = 2. In round 2
    of 2 the ramp is 1/2, p(y) knows only class 0, and T = 1. Gradients by the logits, by d = logits
    times f, and by a:

        CE on x        p - y = (-1, 1)/3           d: (-1, 1)/3         a: -ln2/3
        l1 on m_0      p - y = (-1, 1)/5           d: (-2, 2)/5         (a has no part in it)
        l2 (1 - 2)^2                                                    a: 2 (1 - 2) = -2
        l3 student - teacher = (10 - 12, 5 - 3)/15 = (-2, 2)/15, so d: (-2, 2)/15, a: -2 ln2/15

    With the ramp, d: -(5 + 3 + 1)/15 = -3/5 and +3/5; a: -ln2 (1/3 + 1/15) - 1 = -0.4 ln2 - 1. A
    step of 0.5 goes the other way.
    """
    model = tiny_model(1, (LN2, 0), (7, 7))
    line = "fedmd-cg(source='means', temperature=1.0, generated_batch=3)"
    sent = [column(LN2, 0), column(2, 5)]
    local = tiny_round(tmp_path, tiny_config(line), model, [(1.0, 0)], sent=sent)
    terms, (counts,) = visit(local)
    a, d, m = (array[:, 0].tolist() for array in to_arrays(model))
    assert a == pytest.approx([1.5 + 0.2 * LN2])
    assert d == pytest.approx([LN2 + 0.3, -0.3])
    assert terms == pytest.approx(
        {
            "task": math.log(3 / 2),
            "generated.classification": math.log(5 / 4) / 2,
            "generated.features": 1 / 2,
            "generated.logits": (4 / 5 * math.log(6 / 5) + 1 / 5 * math.log(3 / 5)) / 2,
        }
    )
    assert counts.tolist() == [1, 0]
    # The placebo: the mean of the new features of class 0; class 1 keeps what came, not its own 7.
    assert m == pytest.approx([a[0], 5])


def test_the_second_phase_by_hand(tmp_path: Path) -> None:
    """In round 1 the ramp is 0. With a learning rate of nothing, F(x) = 1 and d = (ln 2, 0) stay.

    The generator says m_0 = 2 where F says 1. Its answers are s = (4, 1)/5, the teacher's
    t = (2, 1)/3, at temperature 1 whatever T is. Gradients by m_0: divergence (s - t) d = 2/15 ln2;
    distance 2 (2 - 1) = 2; cross-entropy (s - y) d = -ln2/5; diversity 0, because there is one
    sample. Adam keeps a tenth of their sum, and its first step is the learning rate.
    """
    model = tiny_model(1, (LN2, 0), (2, 5))
    line = "fedmd-cg(temperature=10.0, adam_weight_decay=0.0, generator_lr=0.25)"
    local = tiny_round(tmp_path, tiny_config(line, lr=1e-30), model, [(1.0, 0)], number=1)
    terms, _ = visit(local)
    assert terms == pytest.approx({"task": math.log(3 / 2)})
    assert local.report == pytest.approx(
        {
            "term.generator.logits": 2 / 3 * math.log(5 / 6) + 1 / 3 * math.log(5 / 3),
            "term.generator.features": 1,
            "term.generator.classification": math.log(5 / 4),
            "term.generator.diversity": 1,
        }
    )
    a, d, m = (array[:, 0].tolist() for array in to_arrays(model))
    assert (a, d) == ([1], pytest.approx([LN2, 0]))
    assert m == pytest.approx([2 - 0.25, 5])
    moments = Memory(tmp_path, 2).get("fedmd-cg.moments")
    assert moments is not None
    steps, first, _ = moments
    assert steps.tolist() == [1]
    assert first[:, 0].tolist() == pytest.approx([0.1 * (2 - LN2 / 15), 0])


@pytest.mark.parametrize(
    ("key", "term"),
    [
        ("classification_weight", "generated.classification"),
        ("feature_weight", "generated.features"),
        ("logit_weight", "generated.logits"),
    ],
)
def test_a_weight_scales_its_term_and_0_drops_it(tmp_path: Path, key: str, term: str) -> None:
    found = []
    for weight in (1.0, 3.0, 0.0):
        model = tiny_model(1, (LN2, 0), (2, 5))
        config = tiny_config(f"fedmd-cg(source='means', {key}={weight})")
        found.append(visit(tiny_round(tmp_path / str(weight), config, model, [(1.0, 0)]))[0])
    assert found[1][term] == pytest.approx(3 * found[0][term])
    assert term not in found[2]


def test_the_literal_text_has_the_student_first_and_sums(tmp_path: Path) -> None:
    """As above with variant="paper": KL(s || t) of s = (2, 1)/3 and t = (4, 1)/5."""
    model = tiny_model(1, (LN2, 0), (2, 5))
    config = tiny_config("fedmd-cg(source='means', variant='paper')")
    terms, _ = visit(tiny_round(tmp_path, config, model, [(1.0, 0)]))
    expected = 2 / 3 * math.log(5 / 6) + 1 / 3 * math.log(5 / 3)
    assert terms["generated.logits"] == pytest.approx(expected / 2)
    assert terms["generated.features"] == pytest.approx(1 / 2)


def test_a_moving_average_begins_with_what_came(tmp_path: Path) -> None:
    """A client without a copy takes G as it came, and does not mix in a random net; then half the
    old copy and half the new G: 2, then (2 + 4)/2 = 3."""
    config = tiny_config("fedmd-cg(source='means', moving_average=0.5)", rounds=9)
    for number, sent, expected in ((2, 2.0, 2.0), (3, 4.0, 3.0)):
        model = tiny_model(1, (LN2, 0), (7, 7))
        pair = [column(LN2, 0), column(sent, 5)]
        local = tiny_round(tmp_path, config, model, [(1.0, 0)], number=number, sent=pair)
        objective = FedMdCgClient(FedMdCg(source="means", moving_average=0.5))
        objective.begin(local)
        assert objective.teacher.means[:, 0].tolist() == [expected, 5]
        local.memory.close()


def test_the_network_is_frozen_for_the_second_phase_only(tmp_path: Path) -> None:
    """The model of a process serves many clients, so that it must be trainable again."""
    local = tiny_round(tmp_path, tiny_config("fedmd-cg"), tiny_model(1, (1, 0), (2, 5)), [(1.0, 0)])
    with frozen_network(local):
        assert local.trainable() == []
        assert all(weight.requires_grad for weight in local.model.generator.parameters())
    assert len(local.trainable()) == 2


def test_the_second_phase_sees_other_batches_than_the_first(tmp_path: Path) -> None:
    samples = [(float(number), number % 2) for number in range(50)]
    local = tiny_round(
        tmp_path, tiny_config("fedmd-cg", batch_size=5), tiny_model(1, (1, 0), (2, 5)), samples
    )
    ((first, _),), ((second, _),) = (
        list(local.data.batches(local, phase)) for phase in ("", "generator.")
    )
    assert not torch.equal(first, second)


def test_the_codes_cache_grows_by_batches_whose_labels_add_up_differently(tmp_path: Path) -> None:
    """21 samples in batches of 2: ten full batches in a fixed order, and a short one that is never
    cached. Two labels add up to 0, 1 or 2, so that at most three batches are kept; after every
    round, the cache begins with what it held before."""
    samples = [(float(number), int(number % 3 == 0)) for number in range(21)]
    config = tiny_config("fedmd-cg(variant='code')", batch_size=2, local_steps=2, rounds=9)
    sizes, before = [], []
    for number in (1, 2, 9):
        model = tiny_model(1, (1, 0), (2, 5))
        local = tiny_round(tmp_path, config, model, samples, number=number)
        local.steps = 2
        cached = [images.flatten().tolist() for images, _ in cached_batches(local)]
        sums = [int(labels.sum()) for _, labels in cached_batches(local)]
        assert len(set(sums)) == len(sums)
        assert cached[: len(before)] == before
        sizes.append(len(cached))
        before = cached
    assert 1 <= sizes[0] <= 2
    assert sizes[-1] <= 3


def test_a_client_with_one_class_teaches_its_generator_that_class_only(tmp_path: Path) -> None:
    """The other class of its generator keeps its weights: no batch has that label."""
    model = tiny_model(1, (LN2, 0), (2, 5))
    config = tiny_config("fedmd-cg(adam_weight_decay=0.0)", local_steps=3)
    _, (counts,) = visit(tiny_round(tmp_path, config, model, [(1.0, 0), (1.5, 0)], number=1))
    means = to_arrays(model)[2][:, 0].tolist()
    assert means[0] != 2
    assert means[1] == 5
    assert counts.tolist() == [2, 0]
