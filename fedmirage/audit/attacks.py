"""The attacks that there are: their parameters, and the run that each of them needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedmirage.audit.attack import Attack
from fedmirage.audit.attacks_on_outcomes import Copies, Epsilon, Membership
from fedmirage.common.errors import ConfigurationError, refuse
from fedmirage.common.settings.language import resolve_line, split

if TYPE_CHECKING:
    from fedmirage.common.data.set import DataSet
    from fedmirage.common.settings.config import RunConfig

EVERY = "all"
MOST = 8  # images of one attack
# Methods whose clients' first local phase is SGD on the task's loss, in round 1 at least.
UNDERSTOOD = ("fedavg", "fedper", "lg-fedavg", "fedcg", "fedmd-cg")
REASONS = {
    "dynafed": "dynafed's images never cross the wire, and its clients send what fedavg's send",
    "fedlgd": "fedlgd's clients train on distilled images, so their updates hold no others",
    "distil": "distil's clients train on distilled images, so their updates hold no others",
}

Count = Annotated[int, Field(ge=1, le=10_000)]
Weight = Annotated[float, Field(ge=0)]


class Inversion(Attack):
    """Rebuilds a client's training images from its update, by matching gradients."""

    name: ClassVar[str] = "inversion"
    module: ClassVar[str] = "fedmirage.audit.inversion"
    settings: ClassVar[dict[str, Any]] = {"rounds": 2, "local_steps": 1, "batch_size": 1}

    matching: Literal["dlg", "cosine"] = "dlg"
    """What is compared with the update: "dlg" makes the squared distance of the gradients small,
    with L-BFGS (Zhu et al., 2019); "cosine" makes the angle between them and the total variation of
    the images small, with Adam on the signs of its gradients (Geiping et al., 2020)."""
    images: Count = 10
    """How many images are to be rebuilt, client by client and round by round."""
    restarts: Count = 4
    """How often each attack begins, with other noise; the one that matches best counts."""
    iterations: Count = 300
    """Evaluations of the distance in each of them."""
    total_variation: Weight = 0.0001
    """The weight of the total variation beside the cosine."""
    step: Annotated[float, Field(gt=0)] = 0.1
    """The step of Adam, in units of normalised pixels; at the end it is a thousandth of this."""
    private: Literal["seed", "guess"] = "seed"
    """What is known of the parts of a network that a method does not send: that the run's seed
    gives them, as it does in round 1, or nothing, so that the attack guesses them."""
    several_steps: Literal["simulate", "mean"] = "simulate"
    """How an update of several local steps is matched: by steps on the rebuilt images, one batch
    after the other, or as if it were the mean gradient at the weights that they began with."""
    generator_weight: Weight = 0.01
    """The weight, in every other restart, of the distance from an image's features to those that
    the client's generator makes for its label, for methods that send one."""

    def check(self, config: RunConfig) -> list[str]:
        """Refuse methods whose updates say something else, and images beyond counting."""
        problems = []
        for method in config.method_list:
            if method.name not in UNDERSTOOD:
                why = REASONS.get(method.name, f"what {method.name} adds to training is not known")
                problems.append(
                    f"attack: inversion is for {', '.join(UNDERSTOOD[:-1])} and {UNDERSTOOD[-1]}:"
                    f" {why}; drop {method.name}"
                )
        if config.local_epochs:
            problems.append(
                f"attack: inversion needs the number of local steps, and local-epochs is"
                f" {config.local_epochs}; write --local-steps 1"
            )
        elif (count := config.local_steps * config.batch_size) > MOST:
            problems.append(
                f"attack: inversion tells at most {MOST} images apart, and local-steps times"
                f" batch-size is {count}; lower one of them"
            )
        if config.optimizer != "sgd":
            problems.append(
                "attack: inversion reads gradients from steps of SGD, but"
                f" optimizer={config.optimizer!r}; write --optimizer sgd"
            )
        if config.augment != "none":
            problems.append(
                f"attack: inversion rebuilds images as they are, and augment={config.augment!r}"
                " changes them; write --augment none"
            )
        return problems

    def check_data(self, config: RunConfig, dataset: DataSet) -> list[str]:
        """Refuse what is no picture, or has several labels."""
        if not dataset.pictures or dataset.task != "single-label":
            return [
                f"attack: inversion is for pictures with one label each, and {dataset.name} has"
                " others; choose another data set"
            ]
        if config.batch_size == 1 and normalises(config, dataset):
            return [
                f"attack: inversion: with model={config.model!r} and methods={config.methods!r}"
                " there is batch norm, so that clients train on no batch of one; write"
                " --batch-size 2"
            ]
        return []


class Histograms(Attack):
    """Infers how many samples of each class a client has, from what is not an image."""

    name: ClassVar[str] = "histograms"
    module: ClassVar[str] = "fedmirage.audit.histograms"
    settings: ClassVar[dict[str, Any]] = {"rounds": 3}

    def check(self, config: RunConfig) -> list[str]:
        """Refuse optimisers whose steps are no gradients."""
        if config.optimizer == "sgd":
            return []
        return [
            "attack: histograms reads gradients from steps of SGD, but"
            f" optimizer={config.optimizer!r}; write --optimizer sgd"
        ]

    def check_data(self, config: RunConfig, dataset: DataSet) -> list[str]:
        """Refuse labels that are no classes."""
        if dataset.task == "single-label":
            return []
        return [
            f"attack: histograms is for samples with one label each, and those of {dataset.name}"
            " have several; choose another data set"
        ]


def normalises(config: RunConfig, dataset: DataSet) -> bool:
    """Whether the network of a run normalises over the batch; loads torch."""
    from fedmirage.client.data import has_batch_statistics
    from fedmirage.common.run import blueprint

    return has_batch_statistics(blueprint(config, dataset.shape, len(dataset.classes)))


ATTACKS: dict[str, type[Attack]] = {
    attack.name: attack for attack in (Inversion, Histograms, Membership, Copies, Epsilon)
}


def is_every(line: str) -> bool:
    """Whether a line names no attack, but stands for each of them."""
    return list_pieces(line) == [EVERY]


def list_pieces(line: str) -> list[str]:
    """List what stands between the commas of a line."""
    return [piece.strip().lower() for piece in split(line)]


def read_attacks(line: str) -> list[Attack]:
    """Read a line of attacks; "all" stands for each of them as it is by default."""
    if is_every(line):
        return [kind() for kind in ATTACKS.values()]
    if EVERY in list_pieces(line):
        raise ConfigurationError(
            f"attack: {line!r}: all stands for every attack; write it alone, or name the attacks"
        )
    attacks = resolve_line(line, {**ATTACKS}, "attack")
    names = [attack.name for attack in attacks]
    double = sorted({name for name in names if names.count(name) > 1})
    refuse([f"attack: {name!r} is listed more than once; keep one" for name in double])
    return attacks
