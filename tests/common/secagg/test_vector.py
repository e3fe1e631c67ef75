"""The masked vector: the sum of the clients' vectors gives their weighted means, without loss."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.secagg.vector import SecureMeans, SecureVector
from fedmirage.common.settings.config import configure
from tests.support.facts import entries, make_facts

NAMES = ["features.weight", "features.running_var", "classifier.bias"]
REFERENCE = [
    np.full((2, 3), 0.5, np.float32),
    np.full(3, 40, np.float32),
    np.arange(2, dtype=np.float32),
]
TRAINABLE = [True, False, True]


def secure_vector(methods: str = "fedavg", secagg: str = "on", **more: object) -> SecureVector:
    config = configure({"methods": methods, "secagg": secagg, **more})
    manifest = entries(*zip(NAMES, REFERENCE, TRAINABLE, strict=True))
    return SecureVector(make_facts(config, manifest=manifest))


def add_up(codec: SecureVector, vectors: list[np.ndarray]) -> SecureMeans | None:
    """What the server makes of the sum, which it gets in whole steps."""
    return codec.decode(np.sum(vectors, axis=0), REFERENCE, len(vectors))


def moved(rng: np.random.Generator) -> list[np.ndarray]:
    return [(array + rng.normal(0, 0.1, array.shape)).astype(np.float32) for array in REFERENCE]


@settings(max_examples=60, deadline=None)
@given(
    examples=st.lists(st.integers(0, 60000), min_size=3, max_size=6),
    seed=st.integers(0, 999),
    uniform=st.booleans(),
)
def test_the_sum_is_the_weighted_mean(examples: list[int], seed: int, uniform: bool) -> None:
    """The error is at most half a step per client, over the sum of the weights; types are kept."""
    rng, codec = (
        np.random.default_rng(seed),
        secure_vector(weighting="uniform" if uniform else "examples"),
    )
    models = [moved(rng) for _ in examples]
    vectors = [
        codec.encode(
            {"shared": model}, REFERENCE, count, {"term.task": 2.0 + count} if count else {}
        )
        for model, count in zip(models, examples, strict=True)
    ]
    assert all(len(vector) == codec.size for vector in vectors)
    means = add_up(codec, vectors)
    if not any(examples):
        assert means is None
        return
    weights = np.array([float(count > 0) for count in examples] if uniform else examples)
    assert means is not None
    assert means.examples == sum(examples)
    assert means.clients == sum(count > 0 for count in examples)
    total = weights.sum() if uniform else weights.sum() / codec.secagg.max_examples
    error = len(examples) * codec.secagg.step / 2 / total
    for index, array in enumerate(means.sections["shared"]):
        exact = np.average(
            [model[index].astype(np.float64) for model in models], axis=0, weights=weights
        )
        assert array.dtype == np.float32
        assert np.abs(array - exact).max() <= error + 4e-6 * np.abs(exact).max()
    exact = np.average([2.0 + count for count in examples], weights=np.array(examples))
    assert means.metrics["term.task"] == pytest.approx(exact, rel=1e-6)


def test_small_and_large_clients_are_both_exact() -> None:
    """10 and 60,000 examples: the small client's share of the mean, 1/6001, has four digits."""
    codec = secure_vector()
    small = [array + np.float32(1) for array in REFERENCE]
    vectors = [
        codec.encode({"shared": small}, REFERENCE, 10, {}),
        codec.encode({"shared": REFERENCE}, REFERENCE, 60000, {}),
    ]
    means = add_up(codec, vectors)
    assert means is not None
    difference = means.sections["shared"][0].astype(np.float64) - REFERENCE[0]
    assert difference == pytest.approx(np.full((2, 3), 10 / 60010), rel=5e-4)


def test_sections_have_their_own_weightings() -> None:
    """SCAFFOLD averages control variates over clients and models by examples, in one message."""
    codec = secure_vector("scaffold")
    control = [np.full((2, 3), 1.0, np.float32), np.full(2, 3.0, np.float32)]
    other = [np.zeros((2, 3), np.float32), np.zeros(2, np.float32)]
    vectors = [
        codec.encode(
            {"shared": REFERENCE, "control-delta": control}, REFERENCE, 300, {"term.control": 1.0}
        ),
        codec.encode(
            {"shared": [a + np.float32(0.5) for a in REFERENCE], "control-delta": other},
            REFERENCE,
            100,
            {},
        ),
    ]
    means = add_up(codec, vectors)
    assert means is not None
    assert np.allclose(means.sections["control-delta"][0], 0.5, atol=1e-6)
    assert np.allclose(means.sections["control-delta"][1], 1.5, atol=1e-6)
    assert np.allclose(means.sections["shared"][1], 40.125, atol=1e-5)
    # A client without the figure counts as 0, so that the sum does not reveal it.
    assert means.metrics["term.control"] == pytest.approx(0.75)


def test_every_number_is_within_the_range_of_the_budget() -> None:
    codec = secure_vector()
    figures = {"term.task": 0.3, "seconds": 1e9}
    large = [array + 8 for array in REFERENCE]
    vector = codec.encode({"shared": large}, REFERENCE, codec.secagg.max_examples, figures)
    assert vector.dtype == np.int64
    assert np.abs(vector).max() == 2 ** (codec.secagg.bits - 1)


@settings(max_examples=40, deadline=None)
@given(
    clip=st.sampled_from([8.0, 7.0, 3.0, 2.7, 1.1, 0.3, 0.013]),
    bits=st.integers(46, 48),
    seed=st.integers(0, 999),
)
def test_the_sum_is_exact_near_the_last_bit(clip: float, bits: int, seed: int) -> None:
    """As many clients as the bits of a sum allow, with numbers at the ends of the range."""
    codec = secure_vector(secagg=f"on(clip={clip}, bits={bits}, max_examples=1)", clients=3)
    clients = 2 ** (53 - bits) - 1
    rng = np.random.default_rng(seed)
    moved = [array + rng.choice([-clip, clip], array.shape) * (1 - 2**-20) for array in REFERENCE]
    vector = codec.encode({"shared": moved}, REFERENCE, 1, {})
    means = codec.decode(clients * vector, REFERENCE, clients)
    assert means is not None
    for one, other in zip(means.sections["shared"], moved, strict=True):
        assert np.allclose(one, other, rtol=1e-7, atol=codec.secagg.step)


def test_a_sum_that_clients_cannot_have_sent_is_refused() -> None:
    codec = secure_vector()
    vector = codec.encode({"shared": REFERENCE}, REFERENCE, 5, {})
    for odd in (-(2**63), 2**62, 2 ** (codec.secagg.bits - 1) + 1):
        vector[-1] = odd
        with pytest.raises(WireError, match="numbers that 1 clients cannot have sent"):
            add_up(codec, [vector])


@pytest.mark.parametrize(
    ("change", "examples", "reason"),
    [
        (9.0, 65536, "exceeds the range that secagg can mask"),
        (np.nan, 5, "is not finite"),
        (np.inf, 5, "is not finite"),
        (0.0, 65537, "more examples than secagg's max_examples=65536"),
    ],
)
def test_what_cannot_be_masked_is_refused_without_its_size(
    change: float, examples: int, reason: str
) -> None:
    changed = [REFERENCE[0] + np.float32(change), *REFERENCE[1:]]
    with pytest.raises(FedmirageError, match=reason):
        secure_vector().encode({"shared": changed}, REFERENCE, examples, {})


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_a_figure_that_is_not_finite_counts_as_nothing(odd: float) -> None:
    codec = secure_vector()
    vectors = [
        codec.encode({"shared": REFERENCE}, REFERENCE, 5, {"term.task": value})
        for value in (odd, 3.0)
    ]
    means = add_up(codec, vectors)
    assert means is not None
    assert means.metrics["term.task"] == pytest.approx(1.5)


def test_clients_without_examples_cannot_have_trained() -> None:
    codec = secure_vector()
    vector = codec.encode({"shared": REFERENCE}, REFERENCE, 5, {})
    vector[1] = vector[codec.wide + 1] = 0  # n_i/max_examples, both elements
    with pytest.raises(WireError, match="1 clients have 0 examples together, which is impossible"):
        add_up(codec, [vector])


@pytest.mark.parametrize(("steps", "possible"), [(-1.0, True), (0.0, True), (-30.0, False)])
def test_a_mean_below_what_anybody_can_have_sent_is_refused(steps: float, possible: bool) -> None:
    """A client may have sent fewer steps than none; it is seen only if the mean is below 0."""
    codec = secure_vector("fednova")
    vectors = [
        codec.encode({"shared": REFERENCE, "effective_steps": [np.array([sent])]}, REFERENCE, 9, {})
        for sent in (5.0, steps, 5.0 if possible else steps)
    ]
    if possible:
        assert add_up(codec, vectors) is not None
        return
    with pytest.raises(
        WireError, match=r"'effective_steps' is -18\.\d+ on average, which is below 0"
    ):
        add_up(codec, vectors)


def test_a_figure_that_no_method_declares_is_refused() -> None:
    with pytest.raises(FedmirageError, match=r"'term\.secret' is not declared by any method"):
        secure_vector().encode({"shared": REFERENCE}, REFERENCE, 5, {"term.secret": 1.0})
