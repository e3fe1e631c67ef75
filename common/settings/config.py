"""The run configuration: one typed, frozen model of flat scalars.

The server, its clients and the command line all read it here. Defaults are written in
`[tool.flwr.app.config]` of pyproject.toml and nowhere else; TOML files and flags override them.
"""

from collections.abc import Callable, Mapping
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

from fedmirage.common.data.catalogue.encoded import Embeddings
from fedmirage.common.data.catalogue.params import DatasetParams
from fedmirage.common.data.partitions.params import PartitionParams
from fedmirage.common.dp.settings import DpParams
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.learning.schedules import Exponential, Schedule
from fedmirage.common.method import NETWORK, Method, Weighting, parts_of, required_weighting
from fedmirage.common.methods import list_own
from fedmirage.common.models.params import ModelParams
from fedmirage.common.secagg.settings import SecAggParams
from fedmirage.common.settings.language import nearest, sentence
from fedmirage.common.settings.lines import Lines, read_lines
from fedmirage.common.settings.project import project
from fedmirage.common.settings.renamed import present_name
from fedmirage.common.settings.rules import RefusedError, contradictions, require
from fedmirage.common.settings.without_data import unscored

MOST = 2**63 - 1  # Flower's run config holds integers of 64 bits
Positive = Annotated[int, Field(ge=1, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]
RATES = {"sgd": 0.05, "adam": 0.001, "adamw": 0.001}  # lr="auto" of each optimiser
# Pairs of settings that decide the same thing, and the values with which they decide nothing.
EXCLUSIVE = (("local-steps", "local-epochs"), ("lr-decay", "schedule"))
OFF: dict[str, Any] = {"local-steps": 0, "local-epochs": 0, "lr-decay": 1.0, "schedule": "constant"}


def key_of(field: str) -> str:
    """`local_steps` in Python is `local-steps` in TOML, in Flower's run config and as a flag."""
    return field.replace("_", "-")


class RunConfig(BaseModel):
    """Everything that determines the numbers of a run, and where they are written."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=key_of,
        populate_by_name=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        defer_build=True,  # --help needs the fields only
    )

    methods: str
    """The methods on top of FedAvg, separated by commas, e.g. "scaffold,
    vhl(alignment_weight=0.5)"; each name wraps those to its left. See `fedmirage methods`. Your own
    is the name of an installed one, or "./mymethod.py(mu=0.1)"."""
    dataset: str
    """The data set, e.g. "digits" or "fashion-mnist(size=32)"; several names make one set with
    several domains. See `fedmirage datasets`."""
    partition: str
    """How the training data are distributed among the clients, e.g. "dirichlet(alpha=0.1)". See
    `fedmirage partitions`."""
    model: str
    """The network, e.g. "simple-cnn" or "convnet(width=32)"; see `fedmirage models`. Your own is
    "mylab.nets:TinyViT(width=64)"."""
    initial_weights: str
    """A safetensors file with the weights that the network begins with, e.g. to fine-tune a
    pretrained one; empty means that the seed gives them."""
    freeze: str
    """Weights that stay as they begin: patterns of their names, separated by commas, e.g.
    "features.*"."""
    task: Literal["auto", "single-label", "multi-label"]
    """Whether an image has one label or several; "auto" follows the data set."""
    clients: Positive
    """Number of clients in the federation."""
    rounds: Positive
    """The last round, counted from 1. A run that starts warm from round 50 continues with round
    51."""
    participation: Share
    """Fraction of the clients that is drawn for each round; at least one client is drawn."""
    weighting: Literal["auto", "examples", "uniform"]
    """How much a client counts in the average: in proportion to its training examples, or as much
    as every other client (uniform). "auto" does what the methods and dp require, and otherwise
    counts examples."""
    seed: Count
    """Seed of all random numbers except the noise of dp; one seed gives the same results in every
    runtime."""
    secagg: str
    """Secure aggregation: the server sees the sum of the updates, but no single one. Write "on",
    "off", e.g. "on(clip=4, max_examples=6000)", or "flower" for Flower's own protocol; the flag
    --secagg alone means "on"."""
    dp: str
    """Differential privacy for every client: "off"; "central(clip=1, noise=1)", where the server,
    which the clients must trust, adds the noise; or "local(clip=1, noise=1)", where each client
    adds noise to its own update. With dp, all clients count equally. The noise does not depend on
    the seed."""
    wire: Literal["float32", "float16", "bfloat16"]
    """The type in which clients send their numbers. In 16 bits they send the difference to the
    model that they got, rounded at random, so the mean of many is right on average. BatchNorm's
    statistics, counts and images stay as they are. Not with secagg or dp."""
    local_steps: Count
    """Optimiser steps per client and round; 0 means that local-epochs decides."""
    local_epochs: Count
    """Passes of a client over its own data per round; 0 means that local-steps decides."""
    batch_size: Positive
    """Samples per training batch; the last batch of a pass may be smaller."""
    optimizer: Literal["sgd", "adam", "adamw"]
    """The clients' optimiser."""
    optimizer_state: Literal["fresh", "kept"]
    """What a client's optimiser remembers of the rounds before: nothing ("fresh"), or its momentum
    and Adam's moments and step count ("kept"), which then stay on the client's own disk."""
    lr: Annotated[float, Field(gt=0)]
    """The clients' learning rate; `schedule` says in which rounds they have less of it. "auto" is
    0.05 with SGD, and 0.001 with Adam and AdamW."""
    schedule: str
    """How the learning rate changes over the rounds: "constant", "exponential(factor=0.99)",
    "step(at=51, factor=0.2)" or "cosine", each with warmup=5 if wanted. See `fedmirage
    schedules`."""
    momentum: Annotated[float, Field(ge=0, lt=1)]
    """Momentum of SGD; Adam and AdamW ignore it."""
    weight_decay: Annotated[float, Field(ge=0)]
    """Weight decay of the clients' optimiser."""
    lr_decay: Share
    """Factor by which the learning rate is multiplied after every round, short for
    schedule="exponential(factor=...)"; 1 leaves it to `schedule`."""
    augment: Literal["none", "crop", "flip", "crop-flip", "crop-flip-cutout"]
    """Random changes to training images: a crop after padding by 4 pixels, a horizontal flip, a
    cutout."""
    device: str
    """Where clients and server compute: "auto" (CUDA if there is any, else the CPU), "cpu", "cuda"
    or e.g. "cuda:1"."""
    threads: Positive
    """Torch threads per client. They affect the results: with one and with two threads, even the
    first gradient differs."""
    server_threads: Count
    """Torch threads of the server; 0 uses all cores of its machine. They affect the results if a
    method trains on the server."""
    memory_format: Literal["channels_last", "contiguous"]
    """Memory order of image tensors. It affects the results; channels_last is faster."""
    precision: Literal["float32", "bfloat16"]
    """In which type networks compute while clients train and while models are scored: "bfloat16" is
    torch's autocast. Weights, optimisers and what a method computes on the server stay float32. It
    affects the results; how fast it is depends on the processor."""
    deterministic: bool
    """Use deterministic kernels only; on the CPU this costs nothing."""
    eval_every: Positive
    """Rounds from one evaluation of the global model on the test set to the next; the last round is
    always evaluated."""
    validation: Annotated[float, Field(ge=0, lt=1)]
    """Fraction of each client's data that is kept out of training. It determines the best model and
    early stopping; the test set never does."""
    patience: Count
    """Stop after this many consecutive evaluations without a better validation loss; 0 never stops
    early."""
    local_evaluation: bool
    """Score every local model on its own IID shard of the test set and, in a simulation without
    secagg and dp, the average of all local models. Always on if a method shares only a part of the
    model, because there is no global model to score then. With server-data="none" it is scored on
    what its site holds out, and no average is."""
    server_data: Literal["test", "none"]
    """What the server reads: the data set of the dataset line, whose test split scores the global
    model ("test"); or nothing at all ("none"). Then the sites score every model on what they hold
    out, and the headline is the mean of these scores; the dataset line must say which classes there
    are and what form the inputs have."""
    target: Annotated[float, Field(ge=0, le=1)]
    """An accuracy on the test set; the summary names the first round that reached it. 0 means no
    target."""
    diagnostics: bool
    """Add more expensive metrics to results.jsonl: how far the clients drift apart, how accurate
    the local models are on the test set and on their own label distribution, and how many samples
    were processed."""
    save_images: bool
    """Write the virtual images of a method as PNG files to images/ in `out`; a deployed node writes
    its own beside its memory."""
    keep_models: Literal["last", "all"]
    """Keep only the last global model, or those of all rounds together with the clients' memories,
    so a later run can start from any round."""
    warm_start: str
    """Start a new run from the state of another: DIR or DIR@ROUND. Round numbers continue from
    there."""
    resume: str
    """Continue the interrupted run in this folder."""
    out: str
    """Folder for results.jsonl, the model and the checkpoint; empty means a new one in runs/."""
    data_dir: str
    """Folder that holds the data sets; empty means $FEDMIRAGE_DATA, or else
    ~/.cache/fedmirage/data."""
    download: bool
    """Fetch a missing data set from the Hugging Face hub."""
    node_timeout: Seconds
    """Seconds to wait until all nodes are connected."""
    round_timeout: Seconds
    """Seconds to wait for the clients' replies in a round; it then continues without the missing
    ones."""
    min_replies: Positive
    """Usable replies that a round needs; with fewer it is tried again."""
    retries: Count
    """How often a failed round is tried again before the run fails."""
    reply_memory: Count
    """Megabytes of clients' replies that the server keeps in memory during a round; further ones
    wait in files in `out` until they are averaged, with the same result. 0 keeps all in memory."""

    @field_validator("*", mode="wrap")
    @classmethod
    def _note_valid(
        cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        """Note every valid value in the context, so that `validate` has it even if others fail."""
        checked = check(value)
        if info.context is not None and info.field_name is not None:
            info.context[info.field_name] = checked
        return checked

    @field_validator("lr", mode="before")
    @classmethod
    def _find_rate(cls, value: Any, info: ValidationInfo) -> Any:
        """Replace "auto" by the optimiser's own rate, so that every record has a number."""
        return RATES[info.data.get("optimizer", "sgd")] if value == "auto" else value

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Travel to another process as settings; it may not have a class of an own method yet."""
        return validate, (self.flat(),)

    @cached_property
    def lines(self) -> Lines:
        """The parsed lines of the small language; raises with all problems if one is unreadable."""
        lines, problems = read_lines(self.__dict__)
        if problems:
            raise ConfigurationError(problems)
        return lines

    @cached_property
    def method_list(self) -> tuple[Method, ...]:
        """The methods, resolved; `fedavg` names the base and adds nothing."""
        methods = require(self.lines.methods, "methods")
        if not self.pictures:
            methods = tuple(one.without_pictures() for one in methods)
        if self.precision != "float32":
            methods = tuple(one.without_kernels() for one in methods)
        return methods

    @property
    def pictures(self) -> bool:
        """Whether the data sets hold pictures."""
        return all(params.pictures for params in self.dataset_list)

    @cached_property
    def dataset_list(self) -> tuple[DatasetParams, ...]:
        """The data sets, resolved."""
        return require(self.lines.dataset, "dataset")

    @cached_property
    def partition_params(self) -> PartitionParams:
        """The partition, resolved."""
        return require(self.lines.partition, "partition")

    @cached_property
    def model_params(self) -> ModelParams:
        """The model, resolved."""
        return require(self.lines.model, "model")

    @cached_property
    def secagg_params(self) -> SecAggParams:
        """Secure aggregation, resolved."""
        return require(self.lines.secagg, "secagg")

    @cached_property
    def dp_params(self) -> DpParams:
        """Differential privacy, resolved."""
        return require(self.lines.dp, "dp")

    @cached_property
    def schedule_params(self) -> Schedule:
        """The schedule, resolved; lr-decay is the short form of one."""
        written = require(self.lines.schedule, "schedule")
        return written if self.lr_decay == 1 else Exponential(factor=self.lr_decay)

    @property
    def own_code(self) -> list[str]:
        """What the run has imported beside fedmirage: its network, encoders and methods."""
        encoders = [one.encoder for one in self.dataset_list if isinstance(one, Embeddings)]
        network = [name] if ":" in (name := self.model_params.name) else []
        return network + encoders + list_own(self.methods)

    @property
    def weighs(self) -> Weighting:
        """How `shared` is averaged; dp bounds one client's influence only if all count equally."""
        if self.dp_params.active:
            return "uniform"
        if self.weighting == "auto":
            return required_weighting(self.method_list) or "examples"
        return self.weighting

    @property
    def shares_all(self) -> bool:
        """Whether the clients share the whole model; if not, there is no global one to score."""
        return set(NETWORK) <= set(parts_of(self.method_list).sends)

    @property
    def scores_local_models(self) -> bool:
        """Whether local models are scored: on request, or because there is no global one."""
        return self.local_evaluation or not self.shares_all

    @property
    def averages_local_models(self) -> bool:
        """Whether the average of all local models is scored, on a host that has all of them.

        Secure aggregation and dp keep single models from the server, so not with these; nor can a
        server score anything without data.
        """
        hidden = self.secagg_params.active or self.dp_params.active
        return self.scores_local_models and not hidden and self.server_reads_data

    @property
    def server_reads_data(self) -> bool:
        """Whether the server has a test set; if not, the sites score the models."""
        return self.server_data == "test"

    @property
    def holds_out(self) -> bool:
        """Whether a node with data of its own keeps a part of them for scores."""
        return self.scores_local_models or not self.server_reads_data

    @property
    def scores_at_sites(self) -> bool:
        """Whether the sites' scores of the model reach the server: metrics must be allowed to."""
        told = self.dp_params.name != "local" and self.secagg_params.name != "flower"
        return not self.server_reads_data and told

    def scored_at_sites(self, round_number: int) -> int | None:
        """The round whose model the sites score while they train in a round; None if none is.

        They score the model that they get, which is that of the round before. Where only a part is
        shared, they score their own model after its training.
        """
        scored = round_number - 1 if self.shares_all else round_number
        wanted = self.scores_at_sites and scored > 0 and self.evaluates(scored)
        return scored if wanted else None

    @property
    def cautions(self) -> list[str]:
        """What methods, privacy and schedule find odd about these settings, though they can run."""
        methods = [caution for method in self.method_list for caution in method.cautions(self)]
        private = self.secagg_params.cautions() + self.dp_params.cautions(self)
        kernels = [
            f"precision={self.precision!r}: {one.name} runs with {key}={value!r}, because its own"
            " kernels compute in 32 bits only"
            for one in (self.lines.methods or () if self.precision != "float32" else ())
            for key, value in one.kernels.items()
            if getattr(one, key) != value
        ]
        found = methods + kernels + private
        return found + self.schedule_params.cautions(self) + unscored(self)

    def evaluates(self, round_number: int) -> bool:
        """Whether models are evaluated on the test set in this round."""
        return round_number % self.eval_every == 0 or round_number == self.rounds

    def flat(self) -> dict[str, str | int | float | bool]:
        """All settings by their keys, as Flower's run config and a TOML file hold them."""
        return self.model_dump(by_alias=True)

    @property
    def drawn(self) -> int:
        """How many clients are drawn for a round."""
        return max(1, round(self.clients * self.participation))

    def learning_rate(self, round_number: int) -> float:
        """The clients' learning rate in a round; rounds are counted from 1."""
        return float(self.lr * self.schedule_params.multiplier(round_number, self.rounds))


def defaults() -> dict[str, Any]:
    """The run's defaults."""
    return dict(project()["tool"]["flwr"]["app"]["config"])


def configure(*layers: Mapping[str, Any]) -> RunConfig:
    """Override the defaults layer by layer, and raise with every problem at once.

    A layer that sets one of two settings that exclude each other switches the other one off.
    """
    settings = defaults()
    for layer in layers:
        named = {key_of(key): value for key, value in layer.items()}
        for one, other in (*EXCLUSIVE, *((other, one) for one, other in EXCLUSIVE)):
            if _is_set(one, named) and other not in named:
                settings[other] = OFF[other]
        settings.update(named)
    return validate(settings)


def _is_set(key: str, layer: Mapping[str, Any]) -> bool:
    """Whether a layer asks for anything by a key that can be off; flags are texts."""
    value = layer.get(key)
    if value is None or value == "":
        return False
    try:
        return bool(type(OFF[key])(value) != OFF[key])
    except (TypeError, ValueError, OverflowError):
        return True  # what is unreadable is refused later


class Draft(RunConfig):
    """The valid part of a configuration, for the rules: refused settings cannot be read."""

    @cached_property
    def lines(self) -> Lines:
        """The readable lines; the problems of the others are already known."""
        return read_lines(self.__dict__)[0]

    def __getattr__(self, name: str) -> Any:
        """Reading a setting that was refused (it has no value) ends the rule that reads it."""
        if name in RunConfig.model_fields:
            raise RefusedError(name)
        raise AttributeError(name)


def validate(settings: Mapping[str, Any]) -> RunConfig:
    """Check a complete set of settings and return it as a configuration."""
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
    config = RunConfig.model_construct(**valid)
    config.__dict__["lines"] = lines  # read once; reading them may import somebody's own method
    return config


def _complaint(detail: Any) -> str:
    key = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "extra_forbidden":
        if (name := present_name(key)) is not None:
            return f"the setting {key!r} is now {name!r}; write {name}={detail['input']!r}"
        return f"there is no setting {key!r}{nearest(key, map(key_of, RunConfig.model_fields))}"
    if detail["type"] == "missing":
        return f"the setting {key!r} is missing; see [tool.flwr.app.config] of pyproject.toml"
    return sentence({**detail, "loc": ()}, f"{key}={detail['input']!r}", ())
