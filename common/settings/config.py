"""The run configuration: one typed, frozen model of flat scalars, read alike by the server, its
clients and the command line.

Defaults stand in `[tool.flwr.app.config]` of pyproject.toml and nowhere else; TOML files and flags
are laid over them.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from common.data.catalogue.params import DATASETS, DatasetParams
from common.data.partitions.params import PARTITIONS, PartitionParams
from common.dp.settings import DP, DpParams
from common.errors import ConfigurationError
from common.method import NETWORK, Weighting, parts_of
from common.methods import METHODS, Method, clashes
from common.models.params import MODELS, ModelParams
from common.secagg.settings import SECAGG, SecAggParams
from common.settings.language import Params, nearest, resolve_line, resolve_one, sentence

PROJECT_FILE = Path(__file__).parents[2] / "pyproject.toml"

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
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
    partition`."""
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
    weighting: Literal["examples", "uniform"]
    """How the average weighs a client: by its training examples, or all alike."""
    seed: Count
    """The seed of everything random; one seed gives the same numbers in every runtime."""
    secagg: str
    """Secure aggregation: "off", "on", or e.g. "on(clip=4, bound=6000)"; the server then sees the
    sum of the updates and no single one. On the command line, --secagg alone is "on"."""
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

    @cached_property
    def method_list(self) -> tuple[Method, ...]:
        """The methods line, resolved; `fedavg` stands for the base and adds nothing."""
        return tuple(resolve_line(self.methods, METHODS, "methods"))

    @cached_property
    def dataset_list(self) -> tuple[DatasetParams, ...]:
        """The dataset line, resolved."""
        return tuple(resolve_line(self.dataset, DATASETS, "dataset"))

    @cached_property
    def partition_params(self) -> PartitionParams:
        """The partition, resolved."""
        return resolve_one(self.partition, PARTITIONS, "partition")

    @cached_property
    def model_params(self) -> ModelParams:
        """The model, resolved."""
        return resolve_one(self.model, MODELS, "model")

    @cached_property
    def secagg_params(self) -> SecAggParams:
        """Secure aggregation, resolved."""
        return resolve_one(self.secagg, SECAGG, "secagg")

    @cached_property
    def dp_params(self) -> DpParams:
        """Differential privacy, resolved."""
        return resolve_one(self.dp, DP, "dp")

    @property
    def weighs(self) -> Weighting:
        """How `shared` is averaged: differential privacy bounds what one client can do only if all
        weigh alike."""
        return "uniform" if self.dp_params.active else self.weighting

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


def project() -> dict[str, Any]:
    """pyproject.toml, which travels with the code: in a checkout, in an editable installation and
    in Flower's app bundle."""
    try:
        return tomllib.loads(PROJECT_FILE.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            [f"{PROJECT_FILE}, which holds the run's defaults, cannot be read: {error}"]
        ) from None


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
            if named.get(one) and other not in named:
                settings[other] = 0
        settings.update(named)
    return validate(settings)


def validate(settings: Mapping[str, Any]) -> RunConfig:
    """A complete set of settings as a checked configuration."""
    problems: list[str] = []
    try:
        config = RunConfig.model_validate(dict(settings))
    except ValidationError as error:
        problems = [_complaint(detail) for detail in error.errors()]
        known = {
            key: value
            for key, value in settings.items()
            if key.replace("-", "_") in RunConfig.model_fields
        }
        bad = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        config = RunConfig.model_construct(
            **{
                key.replace("-", "_"): value
                for key, value in (defaults() | known).items()
                if key not in bad
            }
        )
    problems += _line_problems(config) + _contradictions(config)
    if problems:
        raise ConfigurationError(problems)
    return config


def _complaint(detail: Any) -> str:
    key = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "extra_forbidden":
        return f"there is no setting {key!r}{nearest(key, map(key_of, RunConfig.model_fields))}"
    if detail["type"] == "missing":
        return f"the setting {key!r} is missing; see [tool.flwr.app.config] of pyproject.toml"
    return sentence({**detail, "loc": ()}, f"{key}={detail['input']!r}", ())


def _line_problems(config: RunConfig) -> list[str]:
    """The lines of the small language, each read on its own so that all their problems are seen
    together."""
    problems: list[str] = []
    for name in (
        "method_list",
        "dataset_list",
        "partition_params",
        "model_params",
        "dp_params",
        "secagg_params",
    ):
        try:
            getattr(config, name)
        except ConfigurationError as error:
            problems += error.problems
        except AttributeError:
            continue  # the setting itself was refused already
    return problems


def _contradictions(config: RunConfig) -> list[str]:
    """Settings that are fine alone and not together."""
    values = {**config.__dict__}
    problems: list[str] = []

    def has(*names: str) -> bool:
        return all(name in values for name in names)

    if has("local_steps", "local_epochs") and bool(config.local_steps) == bool(config.local_epochs):
        both = f"local-steps={config.local_steps} and local-epochs={config.local_epochs}"
        problems.append(f"{both}: exactly one of them counts; set the other to 0")
    if has("clients", "participation", "min_replies") and config.min_replies > config.drawn:
        drawn = f"the {config.drawn} clients of a round"
        problems.append(
            f"min-replies={config.min_replies} is more than {drawn}; lower it or raise"
            " participation"
        )
    if has("patience", "validation") and config.patience and not config.validation:
        problems.append(
            f"patience={config.patience} needs validation data; set validation=0.1 or patience=0"
        )
    if has("warm_start", "resume") and config.warm_start and config.resume:
        problems.append(
            "warm-start and resume exclude each other: resume continues a run, warm-start begins a"
            " new one"
        )
    if has("device") and not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", config.device):
        problems.append(f"device={config.device!r} is not known; write auto, cpu, cuda or cuda:N")
    if "method_list" in values:
        problems += clashes(config.method_list)
        if has(
            *RunConfig.model_fields
        ):  # otherwise a setting that a method looks at may be missing
            problems += [
                problem for method in config.method_list for problem in method.check(config)
            ]
            if has("dp_params", "secagg_params"):
                problems += config.secagg_params.check(config) + config.dp_params.check(config)
    return problems


def describe(params: type[Params]) -> list[tuple[str, str, str]]:
    """(key, default, meaning) of each field, for `--help`-like listings."""
    rows = []
    for name, info in params.model_fields.items():
        default = (
            "required" if info.is_required() else repr(info.get_default(call_default_factory=True))
        )
        rows.append((name, default, (info.description or "").strip()))
    return rows
