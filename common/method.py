"""What a method declares about itself, and which combinations of methods are sound.

A declaration is data: the parameters of the method, what it sends, which parts of the model it
changes, what it needs. Server, clients, checks and documentation all read the same declaration, so
they cannot disagree. What a method does is in its two halves: an Objective (client/objective.py),
which the training loop calls, and a StrategyWrapper (server/strategy/wrapper.py), a Flower strategy
around another one. A method may have only one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from fedmirage.common.settings.language import Params

if TYPE_CHECKING:
    from torch import nn

    from fedmirage.common.settings.config import RunConfig

Weighting = Literal["examples", "uniform"]
Shape = tuple[int, ...]  # of one input: channels, height, width of a picture
Shapes = Callable[[int, Shape], Sequence[tuple[int, ...]]]  # (classes, input shape) -> shapes

FEATURES, CLASSIFIER = "features", "classifier"
NETWORK = (FEATURES, CLASSIFIER)  # the parts that every model has


@dataclass(frozen=True)
class Section:
    """A named part of a message, besides `shared`.

    What arrives is checked against what a section `holds`: one array per trainable shared weight,
    a single number, or arrays of other shapes, given as a function of the number of classes and
    the shape of an image, e.g. `lambda classes, shape: [(classes,)]` for one number per class.
    None leaves the check to the method, and such a section cannot be summed securely.
    """

    name: str
    # How it is averaged over the clients. "run" uses the weights of `shared`; with None, the server
    # must see it client by client.
    weighting: Weighting | Literal["run"] | None = "examples"
    holds: Literal["weights", "number"] | Shapes | None = "weights"
    # The smallest number that it can hold, such as 0 for what is counted; None allows any.
    least: float | None = None
    # Whether its numbers may exceed the `clip` of secure aggregation, as counts do. A single number
    # always may.
    wide: bool = False

    @property
    def summable(self) -> bool:
        """Whether only its sum matters; then it survives secure aggregation."""
        return self.weighting is not None


@dataclass(frozen=True)
class Parts:
    """What happens to each part of the model: `features`, `classifier`, and those a method adds.

    A client loads the parts in `loads` from the server. Every other part it keeps from its own last
    round; at first, the run's seed gives it.
    """

    sends: tuple[str, ...] = NETWORK  # what crosses the wire and is averaged
    loads: tuple[str, ...] | None = None  # what a client takes from the server; None means `sends`
    trains: tuple[str, ...] = NETWORK  # what the optimiser of the training loop moves
    adds: tuple[str, ...] = ()  # parts that the method's `build_parts` adds to the model
    requires: tuple[str, ...] = ()  # parts that must be averaged for the method to make sense

    def __post_init__(self) -> None:
        known = {*NETWORK, *self.adds}
        named = {*self.sends, *self.trains, *self.requires, *(self.loads or ())}
        if not named <= known:
            raise ValueError(f"parts {sorted(named - known)} do not exist; `adds` names new ones")
        if not set(self.loads or ()) <= set(self.sends):
            raise ValueError("a client can only load what is sent: `loads` must lie in `sends`")

    @property
    def chooses(self) -> bool:
        """Whether anything but the whole network is trained or averaged."""
        return (self.sends, self.trains, self.adds) != (NETWORK, NETWORK, ()) or (
            self.loads is not None
        )


class Place(Enum):
    """What a method does between the clients' replies and the next model, in order of rank.

    A method of lower rank stands further left in the line, since each wraps those to its left.
    """

    REPLACES = (0, "replace", "the average")  # of `shared`; stands leftmost, next to the replies
    READS = (1, "learn", "from the average")
    CHANGES = (1, "change", "the server's update")  # how the average becomes the next model
    REPAIRS = (2, "repair", "the global model")  # changes it once more after the server's update
    # Scores and saves another model than the one that the clients go on with.
    RELEASES = (3, "choose", "the model that is scored")

    def __init__(self, rank: int, verb: str, what: str) -> None:
        self.rank, self.do, self.does = rank, f"{verb} {what}", f"{verb}s {what}"


class Method(Params):
    """A method's declaration: who wrote it, what it sends, what it needs.

    The fields of a subclass are the method's parameters.
    """

    title: ClassVar[str]
    authors: ClassVar[str]
    link: ClassVar[str]
    # What each value of a parameter called `variant` sets; keys that are written out win.
    variants: ClassVar[dict[str, dict[str, Any]]] = {}

    replaces_data: ClassVar[bool] = False  # clients train on other data than their own
    # Clients read their own last local model ("local.model"), which is kept for them. A method that
    # shares a part of the model need not say so: clients then keep the rest anyway.
    reads_local_model: ClassVar[bool] = False
    prepares: ClassVar[bool] = False  # its client half has long work to do before a first round
    place: ClassVar[Place | None] = None  # what it does with the average, or with what comes of it
    weighting: ClassVar[Weighting | None] = None  # the only weighting with which it is sound
    # Why it is not defined for multi-label tasks, as half a sentence; "" means that it is defined.
    single_label_because: ClassVar[str] = ""
    # What the server sends besides `shared`; only the names of these sections matter.
    down: ClassVar[tuple[Section, ...]] = ()
    # What its client half may report: "term.NAME" for its terms, and names of its own. In a secure
    # sum, a metric that a client does not report counts as 0.
    metrics: ClassVar[tuple[str, ...]] = ()
    diagnostics: ClassVar[tuple[str, ...]] = ()  # what it reports under --diagnostics only
    # What to write instead if the method must see clients one by one but only sums are visible.
    summable_instead: ClassVar[str] = ""
    # Parameters that only pictures give a meaning, with the values that leave them out.
    only_pictures: ClassVar[dict[str, Any]] = {}
    # Parameters that switch on kernels of its client half, which compute in 32 bits only, with the
    # values that leave them out.
    kernels: ClassVar[dict[str, Any]] = {}
    # The parameters that make a placebo of it: the same method without what is supposed to help.
    # Comparisons run it beside the method; {} means that there is none.
    placebo: ClassVar[dict[str, Any]] = {}
    # The parameters with which two short rounds on a few samples show what it does, for tests.
    quick: ClassVar[dict[str, Any]] = {}
    # Whether its rounds before `acts_from` are FedAvg's in all that they leave behind, so that
    # comparisons may take them over from a run of FedAvg.
    begins_as_fedavg: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _fill_in_variant(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(name := given.get("variant"), str):
            return given
        return {**cls.variants.get(name, {}), **given}

    @property
    def parts(self) -> Parts:
        """What happens to each part of the model; it may depend on the parameters.

        Where it does not, a class variable says it: `parts: ClassVar[Parts] = Parts(...)`.
        """
        return Parts()

    @property
    def up(self) -> tuple[Section, ...]:
        """What clients send besides `shared`; it may depend on the parameters.

        Where it does not, a class variable says it, as for `parts`.
        """
        return ()

    @property
    def needs_weighting(self) -> Weighting | None:
        """The only weighting with which it is sound; None if any is.

        It may depend on the parameters.
        """
        return self.weighting

    @property
    def needs_each_client(self) -> str:
        """What the server must see of each client, e.g. "'pair'"; "" if sums are enough.

        It may depend on the parameters.
        """
        alone = [repr(section.name) for section in self.up if not section.summable]
        return " and ".join(alone)

    def needs_server_data(self, config: RunConfig) -> str:
        """Why its server half needs samples of its own, as half a sentence; "" if it does not."""
        return ""

    def extra_outputs(self, classes: int) -> int:
        """The number of outputs that this method adds to the head of a model for `classes`."""
        return 0

    def build_parts(self, shape: Shape, classes: int, feature_dim: int) -> dict[str, nn.Module]:
        """Build the modules of `parts.adds`, by name.

        Torch's generator is seeded with the run's seed while this runs, so that both sides get the
        same weights.
        """
        return {}

    def without_pictures(self) -> Method:
        """Return this method without what only pictures have."""
        return self.model_copy(update=self.only_pictures)

    def without_kernels(self) -> Method:
        """Return this method without kernels of its own."""
        return self.model_copy(update=self.kernels)

    def check_inputs(self) -> list[str]:
        """Say in sentences what was asked for that only pictures have."""
        asked = {
            key: getattr(self, key) for key in self.only_pictures if key in self.model_fields_set
        }
        return [
            f"methods: {self.name}({key}={value!r}) is for pictures, and the inputs are none; leave"
            f" it out or write {key}={self.only_pictures[key]!r}"
            for key, value in asked.items()
            if value != self.only_pictures[key]
        ]

    def check(self, config: RunConfig) -> list[str]:
        """Say in sentences why this method cannot run with these settings; none if it can."""
        return []

    def acts_from(self, config: RunConfig) -> int:
        """The first round in which a run with this method can differ from FedAvg.

        A method that first has to collect or remember something overrides this.
        """
        return first_round(config)

    def cautions(self, config: RunConfig) -> list[str]:
        """Say in sentences what is odd about these settings, although the method can run."""
        acts_from = self.acts_from(config)
        if acts_from <= config.rounds or first_round(config) > config.rounds:
            return []  # a run without any round is refused before it starts
        return [
            f"methods: {self.name} acts from round {acts_from} on, but rounds={config.rounds}, so"
            f" it never acts; write rounds={acts_from} or more"
        ]


def first_round(config: RunConfig) -> int:
    """The number of a run's first round.

    After warm_start="DIR" only the checkpoint knows it, and 1 is assumed.
    """
    _, _, number = config.warm_start.partition("@")
    return int(number) + 1 if number.isdecimal() else 1


def parts_of(methods: Sequence[Method]) -> Parts:
    """The parts of a run's model: those of the method that chooses them, or the whole network."""
    return next((method.parts for method in methods if method.parts.chooses), Parts())


def required_weighting(methods: Sequence[Method]) -> Weighting | None:
    """The weighting that one of the methods requires, if any."""
    return next((wanted for method in methods if (wanted := method.needs_weighting)), None)


def clashes(methods: Sequence[Method]) -> list[str]:
    """Say in sentences why these methods may not stand in one line; none if they may."""
    return [
        f"methods: {problem}"
        for check in (_check_names, _check_places, _check_parts, _check_data, _check_weightings)
        for problem in check(methods)
    ]


def _check_names(methods: Sequence[Method]) -> list[str]:
    names = [method.name for method in methods]
    senders: dict[str, list[str]] = {}
    for method in methods:
        for section in method.up:
            senders.setdefault(section.name, []).append(method.name)
    return [
        f"{name!r} is listed more than once; keep one"
        for name in sorted({name for name in names if names.count(name) > 1})
    ] + [
        f"{' and '.join(sending)} each send a section called {section!r}; keep one"
        for section, sending in senders.items()
        if len(set(sending)) > 1
    ]


def _check_places(methods: Sequence[Method]) -> list[str]:
    problems = []
    for place in (Place.REPLACES, Place.CHANGES, Place.RELEASES):
        names = [method.name for method in methods if method.place is place]
        if len(names) > 1:
            problems.append(f"{' and '.join(names)} each {place.do}; keep one")
    for left, right in combinations(methods, 2):
        if left.place is right.place:
            continue
        if right.place is Place.REPLACES:
            problems.append(
                f"{right.name} {right.place.does}, on which the others build, so it cannot stand"
                f" right of {left.name}; write {right.name} leftmost"
            )
        elif left.place and right.place and _must_precede(right.place, left.place):
            problems.append(
                f"{right.name} {right.place.does}, and must do so before {left.name}"
                f" {left.place.does}; write {right.name} left of {left.name}"
            )
    return problems


def _must_precede(one: Place, other: Place) -> bool:
    # A release passes the model on as it is, so others may learn from it on either side.
    return one.rank < other.rank and (one, other) != (Place.READS, Place.RELEASES)


def _check_parts(methods: Sequence[Method]) -> list[str]:
    choosing = [method for method in methods if method.parts.chooses]
    problems = []
    if len(choosing) > 1:
        what = " and ".join(
            f"{method.name} ({describe_parts(method.parts)})" for method in choosing
        )
        problems.append(f"{what} each decide what is shared; keep one")
    for chooser in choosing[:1]:
        for method in methods:
            if reason := _explain_missing(method, chooser.parts):
                problems.append(f"{method.name} {reason.format(chooser.name)}; drop one of them")
    return problems


def _explain_missing(method: Method, parts: Parts) -> str:
    """Say why a method cannot run with these parts; {} stands for the method that chose them."""
    requires = method.parts.requires
    if not set(requires) <= set(parts.sends):
        needed = "whole model" if requires == NETWORK else " and ".join(requires)
        return f"needs the {needed}, but {{}} shares only: {describe_parts(parts)}"
    if parts.sends or method.parts == parts:
        return ""
    if method.place in (Place.REPLACES, Place.CHANGES):
        return f"{method.place.does}, but {{}} sends it nothing"
    if exchanged := [section.name for section in (*method.down, *method.up)]:
        return f"exchanges {' and '.join(exchanged)}, but {{}} exchanges nothing"
    return ""


def _check_data(methods: Sequence[Method]) -> list[str]:
    replacing = [method.name for method in methods if method.replaces_data]
    if len(replacing) < 2:
        return []
    return [f"{' and '.join(replacing)} each replace the clients' data; keep one"]


def _check_weightings(methods: Sequence[Method]) -> list[str]:
    wanted = {weighting: method.name for method in methods if (weighting := method.needs_weighting)}
    if len(wanted) < 2:
        return []
    what = " and ".join(f"{name} ({weighting})" for weighting, name in wanted.items())
    return [f"{what} each require a weighting of the clients; keep one"]


def describe_parts(parts: Parts) -> str:
    """Say in words what is shared."""
    if parts.sends == NETWORK:
        return "the whole model"
    return " and ".join(parts.sends) or "nothing"
