"""The run configuration: one typed, frozen model of flat scalars, read alike by the server, its
clients and the command line.

Defaults stand in `[tool.flwr.app.config]` of pyproject.toml and nowhere else; TOML files and flags
are laid over them.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from common.data.catalogue.params import DatasetParams
from common.data.partitions.params import PartitionParams
from common.dp.settings import DpParams
from common.errors import ConfigurationError
from common.method import NETWORK, Method, Weighting, parts_of, required_weighting
from common.models.params import ModelParams
from common.secagg.settings import SecAggParams
from common.settings.language import nearest, sentence
from common.settings.lines import Lines, read_lines
from common.settings.project import project
from common.settings.rules import RefusedError, contradictions, require

MOST = 2**63 - 1  # Flower's run config holds whole numbers of 64 bits
Positive = Annotated[int, Field(ge=1, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]


def key_of(field: str) -> str:
    """`local_steps` in Python is `local-steps` in TOML, in Flower's run config and on the command
    line."""
    return field.replace("_", "-")


class RunConfig(BaseModel):
    """Everything that decides the numbers of a run, and where they go."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=key_of,
        populate_by_name=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    methods: str
    """What runs: names joined by commas, left to right is inside out, e.g. "scaffold,
    vhl(alignment_weight=0.5)". See `fedmirage methods`."""
    dataset: str
    """The data, e.g. "digits" or "fashion-mnist(size=32)"; several names make a set of domains. See
    `fedmirage datasets`."""
    partition: str
    """How the training data are dealt to the clients, e.g. "dirichlet(alpha=0.1)". See `fedmirage
    partitions`."""
    model: str
    """The network, e.g. "simple-cnn" or "convnet(width=32)". See `fedmirage models`."""
    task: Literal["auto", "single-label", "multi-label"]
    """What is learned; "auto" takes what the data set says."""
    clients: Positive
    """How many clients there are."""
    rounds: Positive
    """The number of the last round, counted from 1; a run that starts warm at round 50 goes on with
    round 51."""
    participation: Share
    """The share of the clients that is drawn for each round (at least one)."""
    weighting: Literal["auto", "examples", "uniform"]
    """How the average weighs a client: by its training examples, or all alike. "auto" takes what
    the methods and dp require, and examples where they require nothing."""
    seed: Count
    """The seed of everything random; one seed gives the same numbers in every runtime."""
    secagg: str
    """Secure aggregation: "off", "on", or e.g. "on(clip=4, max_examples=6000)"; the server then
    sees the sum of the updates and no single one. On the command line, --secagg alone is "on"."""
    dp: str
    """Differential privacy of every client's update: "off"; "central(clip=1, noise=1)", by a server
    that the clients trust; or "local(clip=1, noise=1)", by each client itself. All clients then
    weigh alike. The noise does not follow from the seed."""
    local_steps: Count
    """Optimiser steps a client makes in a round; 0 means that local-epochs counts."""
    local_epochs: Count
    """Passes over its own data that a client makes in a round; 0 means that local-steps counts."""
    batch_size: Positive
    """Samples in a training batch; the short last batch of a pass is kept."""
    optimizer: Literal["sgd", "adam", "adamw"]
    """The clients' optimiser, made anew in every round."""
    lr: Annotated[float, Field(gt=0)]
    """The clients' learning rate in round 1."""
    momentum: Annotated[float, Field(ge=0, lt=1)]
    """SGD's momentum; Adam does not look at it."""
    weight_decay: Annotated[float, Field(ge=0)]
    """The optimiser's weight decay."""
    lr_decay: Share
    """The factor by which the learning rate shrinks after every round; 1 keeps it."""
    augment: Literal["none", "crop", "flip", "crop-flip", "crop-flip-cutout"]
    """How training images are varied: random crop after padding by 4, horizontal flip, cutout."""
    device: str
    """Where clients and server compute: "auto" (CUDA where there is one), "cpu", "cuda",
    "cuda:1"."""
    threads: Positive
    """Torch threads of one client. Part of the numbers: one and two threads differ in the first
    gradient already."""
    server_threads: Count
    """Torch threads of the server; 0 takes all cores of its machine. Part of the numbers where a
    method trains on the server."""
    memory_format: Literal["channels_last", "contiguous"]
    """How image tensors lie in memory. Part of the numbers, and channels_last is the faster one."""
    deterministic: bool
    """Use deterministic kernels only; on the CPU this costs nothing."""
    eval_every: Positive
    """The global model meets the test set every so many rounds, and in the last one."""
    validation: Annotated[float, Field(ge=0, lt=1)]
    """The share of each client's data that training never sees; the best model and early stopping
    go by it, never by the test."""
    patience: Count
    """Stop when this many evaluations in a row brought no better validation loss; 0 never stops
    early."""
    local_evaluation: bool
    """Score every local model on its own IID shard of the test set and, in a simulation, the
    average of all local models. Always on where a method shares only a part of the model: nothing
    else can be scored then."""
    target: Annotated[float, Field(ge=0, le=1)]
    """An accuracy on the test set; the summary names the first round that reached it. 0 asks for
    none."""
    diagnostics: bool
    """Add costlier figures to results.jsonl: how far clients drift apart, how good the local models
    are on the test set and on their own mix of labels, how many samples were processed."""
    save_images: bool
    """Write the virtual images that a method makes as PNG to images/ in `out`, those of a deployed
    node beside its memory."""
    keep_models: Literal["last", "all"]
    """Keep the last global model, or those of all rounds (with the clients' memories), so that a
    later run can start from any."""
    warm_start: str
    """Begin from another run: DIR or DIR@ROUND; round numbers go on from there."""
    resume: str
    """Continue the interrupted run in this directory."""
    out: str
    """Where results.jsonl, the model and the checkpoint go."""
    data_dir: str
    """Where data sets are looked for; empty means $FEDMIRAGE_DATA, else ~/.cache/fedmirage/data."""
    download: bool
    """Fetch a missing data set from the hub."""
    node_timeout: Seconds
    """How many seconds to wait for the nodes to appear."""
    round_timeout: Seconds
    """How many seconds a round may take before it goes on without those who have not answered."""
    min_replies: Positive
    """A round with fewer usable replies is tried again."""
    retries: Count
    """How often a failed round is tried again before the run fails."""

    @field_validator("*", mode="wrap")
    @classmethod
    def _note_valid(
        cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        """Put every value that passes into the context, so that `validate` has the good ones even
        where others are refused."""
        checked = check(value)
        if info.context is not None and info.field_name is not None:
            info.context[info.field_name] = checked
        return checked

    @cached_property
    def lines(self) -> Lines:
        """The lines of the small language, read; a line that cannot be read raises its problems."""
        lines, problems = read_lines(self.__dict__)
        if problems:
            raise ConfigurationError(problems)
        return lines

    @property
    def method_list(self) -> tuple[Method, ...]:
        """The methods line, resolved; `fedavg` stands for the base and adds nothing."""
        return require(self.lines.methods, "methods")

    @property
    def dataset_list(self) -> tuple[DatasetParams, ...]:
        """The dataset line, resolved."""
        return require(self.lines.dataset, "dataset")

    @property
    def partition_params(self) -> PartitionParams:
        """The partition, resolved."""
        return require(self.lines.partition, "partition")

    @property
    def model_params(self) -> ModelParams:
        """The model, resolved."""
        return require(self.lines.model, "model")

    @property
    def secagg_params(self) -> SecAggParams:
        """Secure aggregation, resolved."""
        return require(self.lines.secagg, "secagg")

    @property
    def dp_params(self) -> DpParams:
        """Differential privacy, resolved."""
        return require(self.lines.dp, "dp")

    @property
    def weighs(self) -> Weighting:
        """How `shared` is averaged: differential privacy bounds what one client can do only if all
        weigh alike."""
        if self.dp_params.active:
            return "uniform"
        if self.weighting == "auto":
            return required_weighting(self.method_list) or "examples"
        return self.weighting

    @property
    def shares_all(self) -> bool:
        """Whether the clients share the whole model; if not, there is no global one to be
        scored."""
        return parts_of(self.method_list).sends == NETWORK

    @property
    def scores_local_models(self) -> bool:
        """Asked for, or the only thing that can be scored."""
        return self.local_evaluation or not self.shares_all

    @property
    def cautions(self) -> list[str]:
        """What methods and privacy find odd about these settings, though they can run."""
        methods = [caution for method in self.method_list for caution in method.cautions(self)]
        return methods + self.dp_params.cautions(self)

    def evaluates(self, round_number: int) -> bool:
        """Whether models meet the test set in this round."""
        return round_number % self.eval_every == 0 or round_number == self.rounds

    def flat(self) -> dict[str, str | int | float | bool]:
        """As Flower's run config and a TOML file have it."""
        return self.model_dump(by_alias=True)

    @property
    def drawn(self) -> int:
        """How many clients are drawn for a round."""
        return max(1, round(self.clients * self.participation))

    def learning_rate(self, round_number: int) -> float:
        """The clients' learning rate in a round counted from 1."""
        return float(self.lr * self.lr_decay ** (round_number - 1))


def defaults() -> dict[str, Any]:
    """The run's defaults."""
    return dict(project()["tool"]["flwr"]["app"]["config"])


def configure(*layers: Mapping[str, Any]) -> RunConfig:
    """Lay settings over the defaults, later ones over earlier ones, and refuse with every problem
    at once.

    A layer that sets one of local-steps and local-epochs switches the other off.
    """
    settings = defaults()
    for layer in layers:
        named = {key_of(key): value for key, value in layer.items()}
        for one, other in (("local-steps", "local-epochs"), ("local-epochs", "local-steps")):
            if str(named.get(one) or 0) != "0" and other not in named:
                settings[other] = 0
        settings.update(named)
    return validate(settings)


class Draft(RunConfig):
    """A configuration as far as it is valid, for the rules: what was refused cannot be read."""

    @cached_property
    def lines(self) -> Lines:
        """The lines that could be read; the problems of the others are known already."""
        return read_lines(self.__dict__)[0]

    def __getattr__(self, name: str) -> Any:
        """A setting that has no value was refused; reading it ends the rule that asked."""
        if name in RunConfig.model_fields:
            raise RefusedError(name)
        raise AttributeError(name)


def validate(settings: Mapping[str, Any]) -> RunConfig:
    """A complete set of settings as a checked configuration."""
    valid: dict[str, Any] = {}
    problems: list[str] = []
    try:
        RunConfig.model_validate(dict(settings), context=valid)
    except ValidationError as error:
        problems += [_complaint(detail) for detail in error.errors()]
    lines, unreadable = read_lines(valid)
    problems += unreadable + contradictions(Draft.model_construct(**valid), lines)
    if problems:
        raise ConfigurationError(problems)
    return RunConfig.model_construct(**valid)


def _complaint(detail: Any) -> str:
    key = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "extra_forbidden":
        return f"there is no setting {key!r}{nearest(key, map(key_of, RunConfig.model_fields))}"
    if detail["type"] == "missing":
        return f"the setting {key!r} is missing; see [tool.flwr.app.config] of pyproject.toml"
    return sentence({**detail, "loc": ()}, f"{key}={detail['input']!r}", ())
