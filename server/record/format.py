"""The format of results.jsonl: one class for each kind of line, one sentence for each key.

`fedmirage reproduce` and reports read these files for years, so a key keeps its name and meaning;
new ones may be added. docs/reference/results.md is made from these classes, and
tests/server/record/test_format.py validates the lines of runs with them.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A line, or an object inside a line; a key with the default None may be missing."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, defer_build=True)


class Named(Part):
    """An object that also holds metrics under the names that common/wire/metrics.py explains."""

    model_config = ConfigDict(extra="allow")


class Resolved(Part):
    """What the settings came to on this machine and with these data."""

    device: str
    """Where the server computed."""
    threads: int
    """Torch threads per client."""
    server_threads: int
    """Torch threads of the server."""
    task: str
    """`single-label` or `multi-label`."""
    parameters: int
    """Numbers in the whole model, BatchNorm's statistics included."""
    classes: int
    """How many classes the data have."""
    class_names: list[str]
    """Their names, in the order of the model's outputs."""
    shape: list[int]
    """Channels, height and width of an image."""
    fingerprint: str
    """A hash of the data; two runs with the same one used the same samples."""
    token: str
    """What clients know this run by; a resumed run keeps it."""
    start_round: int
    """0, or the round that a warm start began from."""
    keeps_local_models: bool | None = None
    """Whether clients remember the model of their last round."""


class Client(Named):
    """A client that took part. Under secure aggregation the server knows its partition only."""

    partition: int
    """Its number, counted from 0."""
    examples: int | None = None
    """How many samples it trained on."""
    train: dict[str, float | None] | None = None
    """The mean of every term of its objective, by name: `task` and those of the methods."""


class Refused(Part):
    """A client that was left out of the round."""

    partition: int
    """Its number, counted from 0."""
    reason: str
    """Why, in a sentence."""


class SecureTotals(Part):
    """What a secure sum tells about all clients together."""

    clients: int
    """How many clients are in the sum."""
    examples: int
    """How many samples they trained on."""


class Optimizer(Part):
    """What became of the clients' optimisers."""

    started_afresh: int
    """How many clients had trained before but lost what their optimiser knew."""


class Budget(Part):
    """The privacy budget of everything released so far."""

    epsilon: float | None
    """Epsilon at `delta`; null if it is infinite."""
    delta: float
    """The delta that epsilon is computed for."""
    clipped: float | None = None
    """The share of updates that were longer than `clip`."""


class Evaluation(Named):
    """Further scores of the global model, those of local models, and those that methods add."""

    recall: list[float | None] | None = None
    """Recall of each class; null for a class that the test set lacks. A round lists it for up to 20
    classes, the summary always."""
    worst_class: str | None = None
    """The class with the worst recall."""
    worst_recall: float | None = None
    """That recall."""
    macro_f1: float | None = None
    """F1 averaged over the classes of the test set; single-label data only."""
    confusion: list[list[int]] | None = None
    """In the summary only, for up to 100 classes: rows are true classes, columns are answers."""
    domains: dict[str, float] | None = None
    """Accuracy on each domain of the data, by name."""
    accuracy_domain_mean: float | None = None
    """Their mean; every domain counts once."""
    accuracy_all_outputs: float | None = None
    """Accuracy over all outputs of a head that a method made wider (VHL); `accuracy` is over the
    real classes."""
    virtual_accuracy: float | None = None
    """VHL: accuracy on the virtual set."""
    feature_distance: float | None = None
    """VHL, with `--diagnostics`: distance of real features to the virtual ones of their class."""


class Diagnostics(Named):
    """What `--diagnostics` adds."""

    drift: float | None = None
    """Mean distance of the local models to their average, weighted as the average is."""
    samples: int
    """Training samples processed so far, repeats included."""


class Validation(Named):
    """Scores of the global model on the clients' validation shares, weighted by examples."""

    loss: float | None
    """Their mean loss."""
    clients: int
    """How many clients answered with a score."""
    silent: list[int]
    """The partitions that did not answer."""
    bytes_down: int
    """Bytes sent for it; `bytes_down` of the round includes them."""


class Times(Part):
    """Seconds by the clock."""

    preparation: float | None = None
    """What methods did before the clients' first round."""
    clients: float
    """From the first message until all replies were in, or time was up."""
    aggregate: float
    """Averaging, and what the methods did on the server."""
    evaluate: float
    """Evaluation."""
    round: float
    """The whole round."""


class ConfigLine(Named):
    """The first line: every [setting](settings.md) by its name, and the following."""

    kind: Literal["config"]
    """`config`."""
    cautions: list[str]
    """What was odd about the settings, in sentences."""
    acts_from: dict[str, int]
    """The first round in which each method does anything."""
    resolved: Resolved
    """What the settings came to on this machine and with these data."""
    versions: dict[str, str]
    """Versions of fedmirage, Python and the packages that decide the numbers."""


class RoundLine(Part):
    """One line per finished round."""

    kind: Literal["round"]
    """`round`."""
    round: int
    """Its number, counted from 1."""
    lr: float | None = None
    """The clients' learning rate in this round; the first versions did not write it."""
    accuracy: float | None
    """Accuracy of the global model on the test set; null in rounds without evaluation."""
    loss: float | None
    """Its loss on the test set; null in rounds without evaluation."""
    train: dict[str, float | None]
    """The mean of every term of the local objective: `task` and those of the methods."""
    clients: list[Client]
    """What each client that took part reported."""
    refused: list[Refused]
    """Which clients were left out, and why."""
    secagg: SecureTotals | None = None
    """With `--secagg`: totals over all clients."""
    methods: dict[str, float | None] | None = None
    """What the methods report, as METHOD.NAME: `fedexp.step`."""
    optimizer: Optimizer | None = None
    """With `--optimizer-state kept`: what became of the clients' optimisers."""
    dp: Budget | None = None
    """With `--dp`: the privacy budget spent so far."""
    evaluation: Evaluation
    """Further scores of this round."""
    validation: Validation | None = None
    """With `--validation`: scores on the clients' validation shares."""
    diagnostics: Diagnostics | None = None
    """With `--diagnostics`: drift and scores of local models."""
    bytes_up: int
    """Bytes that the clients sent."""
    bytes_down: int
    """Bytes that the server sent."""
    seconds: Times
    """How long the round and its phases took."""


class NoteLine(Part):
    """What a method decided or reports during a round."""

    kind: Literal["note"]
    """`note`."""
    round: int
    """The round."""
    text: str
    """The sentence."""
    progress: bool | None = None
    """True if it only reports progress; the summary then leaves it out."""


class RetryLine(Part):
    """A round that failed and may be tried again."""

    kind: Literal["retry"]
    """`retry`."""
    round: int
    """The round."""
    attempt: int
    """Which attempt failed, counted from 1."""
    reason: str
    """Why, in a sentence."""


class PreparationLine(Part):
    """How long clients worked before their first round, for a method that needs it."""

    kind: Literal["preparation"]
    """`preparation`."""
    round: int
    """The round that follows."""
    clients: list[dict[str, Any]]
    """`partition` and `seconds` of each client."""
    seconds: float
    """How long the server waited for all of them."""


class SummaryLine(Part):
    """The last line: how the run ended."""

    kind: Literal["summary"]
    """`summary`."""
    status: Literal["finished", "failed", "interrupted"]
    """`finished`, `failed` or `interrupted`."""
    reason: str | None = None
    """Why it failed or was interrupted."""
    rounds: int
    """The last finished round."""
    final_accuracy: float | None
    """Accuracy in the last evaluated round."""
    best_accuracy: float | None
    """The best of all evaluated rounds."""
    last5_accuracy: float | None
    """The mean of the last five evaluated rounds."""
    final_evaluation: Evaluation
    """Further scores of the last evaluation."""
    target_accuracy: float | None = None
    """With `--target`: that accuracy."""
    rounds_to_target: int | None = None
    """With `--target`: the first round that reached it; null if none did."""
    notes: list[str] | None = None
    """Cautions, and what methods decided."""
    idle: dict[str, str] | None = None
    """Methods that changed nothing, each with the reason."""
    dp: Budget | None = None
    """With `--dp`: the privacy budget of the whole run."""
    bytes_up: int
    """Bytes that the clients sent in all rounds."""
    bytes_down: int
    """Bytes that the server sent in all rounds."""
    seconds: float | None = None
    """How long a finished run took; after `--resume`, since then."""
    stopped_early: bool | None = None
    """True if `--patience` ran out."""
    samples: int | None = None
    """With `--diagnostics`: training samples processed, repeats included."""
    best_validation_loss: float | None = None
    """With `--validation`: the best validation loss."""
    best_round: int | None = None
    """The round that had it; `best.safetensors` is its model."""
    best_round_accuracy: float | None = None
    """Accuracy of that round on the test set."""
    waited: int | None = None
    """Evaluations since then without a better one."""


LINES: tuple[type[Part], ...] = (
    ConfigLine,
    RoundLine,
    NoteLine,
    RetryLine,
    PreparationLine,
    SummaryLine,
)
