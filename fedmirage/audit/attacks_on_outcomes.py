"""The attacks on what comes of a run: its global model, the images that it made, its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from fedmirage.audit.attack import Attack

if TYPE_CHECKING:
    from fedmirage.common.data.set import DataSet
    from fedmirage.common.settings.config import RunConfig

MAKERS = ("vhl", "fedlgd", "dynafed", "fedcog")  # methods that make images


class OnHalves(Attack):
    """An attack whose run trains on half of every client's samples; the others are held out.

    Nothing but the training tells the two apart, because the draw is random.
    """

    def check_data(self, config: RunConfig, dataset: DataSet) -> list[str]:
        """There must be enough of both."""
        from fedmirage.audit.halves import find_problems
        from fedmirage.common.data.partitions.named import divide

        return find_problems(self.name, divide(config, dataset))

    def arrange(self, config: RunConfig) -> RunConfig:
        """Hold out half of the samples."""
        from fedmirage.audit.halves import hold_out

        return hold_out(config)


class Membership(OnHalves):
    """Tells which samples the global model was trained on, by their loss and by a likelihood ratio
    with shadow models (LiRA, Carlini et al. 2022)."""

    name: ClassVar[str] = "membership"
    module: ClassVar[str] = "fedmirage.audit.membership"
    settings: ClassVar[dict[str, Any]] = {"rounds": 10, "local_epochs": 5}

    shadows: Annotated[int, Field(ge=2, le=1024, multiple_of=2)] = 16
    """The number of shadow models: runs with the same settings on other halves of the data. They
    come in pairs that train on opposite halves."""

    def check(self, config: RunConfig) -> list[str]:
        """There must be a global model, which every client has trained."""
        found = []
        if not config.shares_all:
            found.append(
                f"attack: membership is read off the global model, but methods={config.methods!r}"
                " leaves clients with models of their own; attack a method that shares the whole"
                " model"
            )
        if config.drawn < config.clients:
            found.append(
                "attack: membership takes every client's samples for trained on, but with"
                f" participation={config.participation:g} some may never be drawn; leave it at 1"
            )
        return found

    def check_data(self, config: RunConfig, dataset: DataSet) -> list[str]:
        """Every sample must have one true class."""
        found = super().check_data(config, dataset)
        if dataset.task != "single-label":
            found.append(
                "attack: membership is read off the probability of the true class, but samples of"
                f" {dataset.name} have several labels; take a set with one label per sample"
            )
        return found


class Copies(OnHalves):
    """Compares the images that a method makes with the nearest training images, so that copies
    would show."""

    name: ClassVar[str] = "copies"
    module: ClassVar[str] = "fedmirage.audit.copies"
    settings: ClassVar[dict[str, Any]] = {"rounds": 10, "local_epochs": 5}

    pairs: Annotated[int, Field(ge=1, le=20)] = 10
    """How many of the closest pairs the picture shows."""

    def check(self, config: RunConfig) -> list[str]:
        """There must be images."""
        by_name = {method.name: method for method in config.method_list}
        if not by_name.keys() & set(MAKERS):
            return [
                "attack: copies compares images that a method makes, but"
                f" methods={config.methods!r} makes none; attack one of {', '.join(MAKERS)}"
            ]
        problems = []
        if not config.pictures:
            problems.append(
                f"attack: copies compares pictures, and dataset={config.dataset!r} has none; take"
                " another set"
            )
        length = getattr(by_name.get("dynafed"), "length", 0)
        if length > config.rounds:
            problems.append(
                f"attack: copies needs dynafed's images, which it learns after length={length}"
                f" rounds, but rounds={config.rounds}; raise rounds, or write dynafed(length=...)"
            )
        start = getattr(by_name.get("fedcog"), "start", 1)
        if start > config.rounds + 1:
            problems.append(
                f"attack: copies needs fedcog's images, which begin in round start={start}, but"
                f" rounds={config.rounds}; raise rounds, or write fedcog(start=...)"
            )
        return problems


class Epsilon(Attack):
    """Checks the privacy budget of --dp: bounds epsilon from below by many small releases with and
    without a canary client, through the same clipping, noise and accounting."""

    name: ClassVar[str] = "epsilon"
    module: ClassVar[str] = "fedmirage.audit.epsilon"
    settings: ClassVar[dict[str, Any]] = {"rounds": 1}

    runs: Annotated[int, Field(ge=500, le=1_000_000)] = 2000
    """The number of runs, half of them with other data of the canary client. With more, the bound
    is closer to the truth."""

    def check(self, config: RunConfig) -> list[str]:
        """There must be a budget."""
        if getattr(config.dp_params, "noise", 0) > 0:
            return []
        return [
            f"attack: epsilon checks a budget, but dp={config.dp!r} has none; write e.g."
            ' --dp "central(clip=1, noise=4)"'
        ]
