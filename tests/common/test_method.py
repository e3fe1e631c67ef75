"""Which methods may stand beside each other follows from what they declare."""

import itertools
from typing import ClassVar

import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.method import (
    CLASSIFIER,
    FEATURES,
    Method,
    Parts,
    Place,
    Section,
    Weighting,
    clashes,
    required_weighting,
)
from fedmirage.common.methods import METHODS
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.methods.fedavgm import FedAvgM
from fedmirage.common.methods.fedper import FedPer
from fedmirage.common.methods.fedprox import FedProx
from fedmirage.common.methods.local import Local
from fedmirage.common.methods.scaffold import Scaffold
from fedmirage.common.methods.swa import Swa
from fedmirage.common.settings.language import resolve_line


class Reader(Method):
    name: ClassVar[str] = "reader"
    place: ClassVar[Place] = Place.READS


class Average(Method):
    name: ClassVar[str] = "average"
    place: ClassVar[Place] = Place.REPLACES


class Replacer(Method):
    name: ClassVar[str] = "replacer"
    replaces_data: ClassVar[bool] = True
    weighting: ClassVar[str] = "uniform"  # type: ignore[assignment]


class OtherReplacer(Method):
    name: ClassVar[str] = "other"
    replaces_data: ClassVar[bool] = True
    weighting: ClassVar[str] = "examples"  # type: ignore[assignment]


class HeadOnly(Method):
    name: ClassVar[str] = "head-only"
    parts: ClassVar[Parts] = Parts(sends=(CLASSIFIER,), trains=(CLASSIFIER,))


def test_a_method_that_reads_the_average_stands_left_of_one_that_repairs_it() -> None:
    assert clashes([Reader(), DynaFed()]) == []
    assert clashes([DynaFed(), Reader()]) == [
        "methods: reader learns from the average, and must do so before dynafed repairs the global"
        " model; write reader left of dynafed"
    ]
    assert clashes([FedAvgM(), Reader(), DynaFed()]) == []


def test_places_decide_the_order_of_a_line() -> None:
    """Every order of one method per place: only a reader may stand on more than one spot."""
    one_each = [Average(), Reader(), FedAvgM(), DynaFed(), Swa()]
    sound = [
        " ".join(method.name for method in line)
        for line in itertools.permutations(one_each)
        if not clashes(line)
    ]
    assert sound == [
        "average reader fedavgm dynafed swa",
        "average fedavgm reader dynafed swa",
    ]
    assert clashes([Swa(), Reader()]) == []  # the model passes a release unchanged


def test_a_method_that_replaces_the_average_stands_leftmost() -> None:
    """Also of methods that do nothing on the server, so that there is one way to write a line."""
    assert clashes([Average(), FedProx(), FedAvgM()]) == []
    for other in (FedAvgM(), FedProx()):
        assert clashes([other, Average()]) == [
            f"methods: average replaces the average, on which the others build, so it cannot stand"
            f" right of {other.name}; write average leftmost"
        ]


def test_what_only_one_method_may_do() -> None:
    class OtherAverage(Average):
        name: ClassVar[str] = "other-average"

    assert clashes([Average(), OtherAverage()]) == [
        "methods: average and other-average each replace the average; keep one"
    ]
    assert clashes([Average(), Local()]) == [
        "methods: average replaces the average, but local sends it nothing; drop one of them"
    ]


def test_two_that_replace_data_or_ask_for_unlike_weights_clash() -> None:
    assert clashes([Replacer(), OtherReplacer()]) == [
        "methods: replacer and other each replace the clients' data; keep one",
        "methods: replacer (uniform) and other (examples) each require a weighting of the clients;"
        " keep one",
    ]


def test_the_weighting_that_a_method_needs_may_depend_on_its_parameters() -> None:
    class Choosing(Replacer):
        name: ClassVar[str] = "choosing"
        by_examples: bool = False

        @property
        def needs_weighting(self) -> Weighting:
            return "examples" if self.by_examples else "uniform"

    assert required_weighting([Scaffold(), Choosing()]) == "uniform"
    assert required_weighting([Choosing(by_examples=True)]) == "examples"
    (_, weightings) = clashes([Choosing(by_examples=True), Replacer()])
    assert "choosing (examples) and replacer (uniform)" in weightings


def test_parts_decide_what_goes_together() -> None:
    assert clashes([HeadOnly(), FedPer()]) == [
        "methods: head-only (classifier) and fedper (features) each decide what is shared; keep one"
    ]
    assert clashes([Scaffold(), HeadOnly()]) == [
        "methods: scaffold needs the whole model, but head-only shares only: classifier; drop one"
        " of them"
    ]


def test_parts_may_depend_on_the_parameters() -> None:
    class Chooser(Method):
        name: ClassVar[str] = "chooser"
        classifier_only: bool = False

        @property
        def parts(self) -> Parts:
            return Parts(sends=(CLASSIFIER,)) if self.classifier_only else Parts()

    assert clashes([FedPer(), Chooser()]) == []
    assert clashes([FedPer(), Chooser(classifier_only=True)]) == [
        "methods: fedper (features) and chooser (classifier) each decide what is shared; keep one"
    ]


def test_what_is_seen_client_by_client() -> None:
    class Alone(Method):
        name: ClassVar[str] = "alone"
        up: ClassVar[tuple[Section, ...]] = (Section("pair", None), Section("sum"))

    assert Alone().needs_each_client == "'pair'"
    assert Scaffold().needs_each_client == ""


def test_the_whole_network_is_no_choice() -> None:
    assert not Parts().chooses
    assert not Parts(requires=(FEATURES,)).chooses
    assert Parts(loads=(FEATURES,)).chooses
    assert Parts(trains=(CLASSIFIER,)).chooses


@pytest.mark.parametrize("name", sorted(name for name in METHODS if METHODS[name].variants))
@pytest.mark.parametrize("value", ["{}", "{1}", "[1]", "3", "'neither'"])
def test_a_variant_that_is_none_is_a_sentence(name: str, value: str) -> None:
    """Also where the value cannot be looked up, because it is not hashable."""
    with pytest.raises(
        ConfigurationError, match=rf"methods: {name}\(variant=.*\): input should be"
    ):
        resolve_line(f"{name}(variant={value})", METHODS, "methods")
