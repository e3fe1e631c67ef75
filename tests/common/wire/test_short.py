"""Numbers in 16 bits: rounded without bias, read as they were written, refused where they end."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from fedmirage.common.errors import FedmirageError
from fedmirage.common.method import Method, Section
from fedmirage.common.methods import METHODS
from fedmirage.common.methods.scaffold import CONTROL_DELTA
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.short import SHORT, Wire
from tests.support.facts import entries, make_facts


class Sender(Method):
    name: ClassVar[str] = "sender"
    up: ClassVar[tuple[Section, ...]] = (Section("odd", holds=None),)


KINDS = pytest.mark.parametrize("name", SHORT)
TORCH = {"float16": torch.float16, "bfloat16": torch.bfloat16}
WEIGHT, MEAN = np.ones((2, 3), np.float32), np.full(3, 7.0, np.float32)


def find_spacing(name: str, values: np.ndarray) -> np.ndarray:
    """Find how far apart the numbers are that a type holds beside these."""
    if name == "float16":
        return np.spacing(np.abs(values).astype(np.float16)).astype(np.float64)
    return np.spacing(np.abs(values).astype(np.float32)).astype(np.float64) * 2**16


@KINDS
def test_numbers_that_it_holds_stay_as_they_are(name: str) -> None:
    """All of them: every pattern of 16 bits that is finite."""
    kind = SHORT[name]
    patterns = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(TORCH[name])
    held = patterns[patterns.isfinite()].double().numpy()
    assert np.abs(held).max() == kind.largest
    rounded = kind.round(held, np.random.default_rng(0))
    assert np.array_equal(rounded, held)
    assert np.array_equal(kind.read(kind.write(rounded)), held)
    assert kind.write(rounded).dtype == kind.held


@KINDS
@pytest.mark.parametrize("size", [1.0, 1e-3, 3e-5, 2e-7, 1e-9])
def test_rounding_takes_a_neighbour_and_is_right_on_average(name: str, size: float) -> None:
    """Down to float16's smallest numbers, whose steps of 6e-8 are equal."""
    kind, draws = SHORT[name], 400
    values = np.random.default_rng(1).normal(0, size, 2000)
    rounded = kind.round(np.tile(values, (draws, 1)), np.random.default_rng(2))
    assert np.array_equal(kind.read(kind.write(rounded)), rounded)
    errors = (rounded - values) / find_spacing(name, values)
    assert np.abs(errors).max() < 1  # so nothing lies between them
    # The deviation of one draw is at most 1/2.
    assert np.abs(errors.mean(axis=0)).max() < 6 * 0.5 / np.sqrt(draws)
    assert abs(errors.mean()) < 5 * 0.5 / np.sqrt(errors.size)


def make_wire(name: str, methods: str = "scaffold") -> Wire:
    manifest = entries(("features.weight", WEIGHT, True), ("features.mean", MEAN, False))
    return Wire(make_facts(configure({"methods": methods, "wire": name}), manifest=manifest))


@KINDS
def test_weights_travel_as_differences_and_statistics_as_they_are(name: str) -> None:
    """A client moves its weights by 2^-9 and by 0: both types hold that, though not 1 + 2^-9."""
    wire = make_wire(name)
    trained = WEIGHT + np.array([[2**-9, 0, 0], [0, 0, -(2**-9)]], np.float32)
    control = np.full((2, 3), 0.25, np.float32)
    sections = {CONTROL_DELTA: [control], "shared": [trained, MEAN + 1]}
    sent = wire.shorten(sections, [WEIGHT, MEAN], 1, 0)
    assert wire.declared == {"shared": name, CONTROL_DELTA: name}
    assert [array.dtype for array in sent["shared"]] == [SHORT[name].held, np.float32]
    assert SHORT[name].read(sent["shared"][0])[0].tolist() == [2**-9, 0, 0]
    back = wire.restore(sent, [WEIGHT, MEAN])
    assert back.keys() == sections.keys()
    for section, arrays in back.items():
        for array, expected in zip(arrays, sections[section], strict=True):
            assert array.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["float32", *SHORT])
def test_a_section_of_arrays_that_only_its_method_knows_stays_as_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "sender", Sender)
    wire, odd = make_wire(name, "sender"), [np.arange(3), np.ones((2, 2))]
    sent = wire.shorten({"odd": odd}, [WEIGHT, MEAN], 1, 0)
    assert all(one is other for one, other in zip(sent["odd"], odd, strict=True))
    assert wire.restore(sent, [WEIGHT, MEAN])["odd"] == odd
    assert "odd" not in wire.declared


def test_the_draw_depends_on_seed_client_and_round() -> None:
    sections = {"shared": [WEIGHT + 0.1, MEAN], CONTROL_DELTA: [WEIGHT / 3]}

    def send(number: int, who: int) -> bytes:
        sent = make_wire("bfloat16").shorten(sections, [WEIGHT, MEAN], number, who)
        return sent["shared"][0].tobytes() + sent[CONTROL_DELTA][0].tobytes()

    assert send(1, 0) == send(1, 0)
    assert len({send(1, 0), send(2, 0), send(1, 1)}) == 3


def test_float32_leaves_everything_alone() -> None:
    wire = make_wire("float32")
    sections = {"shared": [WEIGHT, MEAN], CONTROL_DELTA: [WEIGHT]}
    sent = wire.shorten(sections, [WEIGHT, MEAN], 1, 0)
    assert wire.declared == {}
    assert all(sent[name][0] is sections[name][0] for name in sections)


@pytest.mark.parametrize(
    ("name", "largest", "told"),
    [
        ("float16", 65519.0, "holds 65536, and wire='float16' ends at 65504"),
        ("bfloat16", 65519.0, ""),
    ],
)
def test_what_is_too_large_is_refused_with_the_section(
    name: str, largest: float, told: str
) -> None:
    """65,519 becomes 65,536 with float16 in 15 of 32 draws; one of 32 numbers always does."""
    wire, zeros = make_wire(name), [np.zeros_like(WEIGHT), MEAN]
    sections = {CONTROL_DELTA: [WEIGHT], "shared": [np.full((32, 6), largest, np.float32), MEAN]}
    if not told:
        assert wire.shorten(sections, [np.zeros((32, 6), np.float32), MEAN], 1, 0)
        return
    with pytest.raises(FedmirageError, match=f"the section 'shared' {told}; lower lr"):
        wire.shorten(sections, [np.zeros((32, 6), np.float32), MEAN], 1, 0)
    with pytest.raises(FedmirageError, match="the section 'control-delta' holds inf"):
        wire.shorten({CONTROL_DELTA: [WEIGHT * np.float32("inf")]}, zeros, 1, 0)
