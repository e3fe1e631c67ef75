"""The format of results.jsonl: one class for each kind of line, one sentence for each key.

`fedmirage reproduce` and reports read these files for years, so a key keeps its name and meaning;
new ones may be added. docs/reference/results.md is made from these classes, and
tests/server/record/test_format.py validates the lines of runs with them.

A file may also be damaged, or come from another version or program. `find_problem` checks here,
once, whatever a reader computes with, and ignores keys that are new, or that no reader needs.
"""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

LONGEST = 60  # characters of a value that a sentence repeats
ABSENT: Any = None  # of what a line may lack; nobody reads this default

Whole = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Score = Number | None  # what was not finite is written as null
Scores = dict[str, Score]


def _require_square(table: list[list[Whole]]) -> list[list[Whole]]:
    if any(len(row) != len(table) for row in table):
        raise ValueError("it must have as many columns as rows")
    return table


class Part(BaseModel):
    """A line, or an object inside a line; a key with the default ABSENT may be missing."""

    model_config = ConfigDict(
        extra="forbid", strict=True, use_attribute_docstrings=True, defer_build=True
    )


class Named(Part):
    """An object that also holds metrics under the names that common/wire/metrics.py explains."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: Scores = Field(init=False)


class Resolved(Part):
    """What the settings came to on this machine and with these data."""

    device: str
    """Where the server computed."""
    threads: Whole
    """Torch threads per client."""
    server_threads: Whole
    """Torch threads of the server."""
    task: str
    """`single-label` or `multi-label`."""
    parameters: Whole
    """Numbers in the whole model, BatchNorm's statistics included."""
    classes: Whole
    """How many classes the data have."""
    class_names: list[str]
    """Their names, in the order of the model's outputs."""
    shape: list[Whole]
    """Channels, height and width of an image."""
    fingerprint: str = ABSENT
    """A hash of the data; two runs with the same one used the same samples. A server without data
    does not know it."""
    schema_hash: str = ABSENT
    """A hash of what a table's columns mean, without comments and the order of keys."""
    token: str
    """What clients know this run by; a resumed run keeps it."""
    start_round: Whole
    """0, or the round that a warm start began from."""
    keeps_local_models: bool = ABSENT
    """Whether clients remember the model of their last round."""
    sources: dict[str, str] = ABSENT
    """Hashes of the source of what was imported beside fedmirage, such as your own network."""


class Client(Named):
    """A client that took part. Under secure aggregation the server knows its partition only."""

    partition: Whole
    """Its number, counted from 0."""
    examples: Whole = ABSENT
    """How many samples it trained on."""
    samples: Number = ABSENT
    """How many samples it processed, repeats included."""
    train: Scores = ABSENT
    """The mean of every term of its objective, by name: `task` and those of the methods."""


class Refused(Part):
    """A client that was left out of the round."""

    partition: Whole
    """Its number, counted from 0."""
    reason: str
    """Why, in a sentence."""


class SecureTotals(Part):
    """What a secure sum tells about all clients together."""

    clients: Whole
    """How many clients are in the sum."""
    examples: Whole
    """How many samples they trained on."""


class Optimizer(Part):
    """What became of the clients' optimisers."""

    started_afresh: Whole
    """How many clients had trained before but lost what their optimiser knew."""


class Fallbacks(Part):
    """What became of the clients' memories."""

    fell_back: Whole
    """How many clients could not read what they remembered last, and went on from older files."""


class Budget(Part):
    """The privacy budget of everything released so far."""

    epsilon: Score
    """Epsilon at `delta`; null if it is infinite."""
    delta: Number
    """The delta that epsilon is computed for."""
    clipped: Score = ABSENT
    """The share of updates that were longer than `clip`."""


class Evaluation(Named):
    """Further scores of the global model, those of local models, and those that methods add."""

    recall: list[Score] = ABSENT
    """Recall of each class; null for a class that the test set lacks. A round lists it for up to 20
    classes, the summary always."""
    worst_class: str = ABSENT
    """The class with the worst recall."""
    worst_recall: Score = ABSENT
    """That recall."""
    balanced_accuracy: Score = ABSENT
    """Recall averaged over the classes of the test set; single-label data only. The first versions
    did not write it."""
    macro_f1: Score = ABSENT
    """F1 averaged over the classes of the test set; single-label data only."""
    auc: Score = ABSENT
    """Area under the ROC curve on the whole test set; of more than two classes, the mean of each
    against all others. It is missing if the test set has one class only; the first versions did
    not write it."""
    confusion: Annotated[list[list[Whole]], AfterValidator(_require_square)] = ABSENT
    """In the summary only, for up to 100 classes: rows are true classes, columns are answers."""
    domains: Scores = ABSENT
    """Accuracy on each domain of the data, by name."""
    accuracy_domain_mean: Score = ABSENT
    """Their mean; every domain counts once."""
    accuracy_all_outputs: Score = ABSENT
    """Accuracy over all outputs of a head that a method made wider (VHL); `accuracy` is over the
    real classes."""
    virtual_accuracy: Score = ABSENT
    """VHL: accuracy on the virtual set."""
    feature_distance: Score = ABSENT
    """VHL, with `--diagnostics`: distance of real features to the virtual ones of their class."""


class Diagnostics(Named):
    """What `--diagnostics` adds."""

    drift: Score = ABSENT
    """Mean distance of the local models to their average, weighted as the average is."""
    samples: Whole
    """Training samples processed so far, repeats included."""


class Validation(Named):
    """Scores of the global model on the clients' validation shares, weighted by examples."""

    loss: Score
    """Their mean loss."""
    clients: Whole
    """How many clients answered with a score."""
    silent: list[Whole]
    """The partitions that did not answer."""
    bytes_down: Whole
    """Bytes sent for it; `bytes_down` of the round includes them."""


class Times(Part):
    """Seconds by the clock."""

    preparation: Number = ABSENT
    """What methods did before the clients' first round."""
    clients: Number
    """From the first message until all replies were in, or time was up."""
    aggregate: Number
    """Averaging, and what the methods did on the server."""
    evaluate: Number
    """Evaluation."""
    round: Number
    """The whole round."""


class ConfigLine(Part, extra="allow"):
    """The first line: every [setting](settings.md) by its name, and the following."""

    # Readers compute with these settings; the configuration itself checks all of them.
    methods: str
    seed: Whole
    rounds: Whole
    warm_start: str = Field(alias="warm-start")
    out: str = ABSENT
    target: Number = ABSENT

    kind: Literal["config"]
    """`config`."""
    cautions: list[str]
    """What was odd about the settings, in sentences."""
    acts_from: dict[str, Whole]
    """The first round in which each method does anything."""
    resolved: Resolved
    """What the settings came to on this machine and with these data."""
    versions: dict[str, str]
    """Versions of fedmirage, Python and the packages that decide the numbers."""


class RoundLine(Part):
    """One line per finished round."""

    kind: Literal["round"]
    """`round`."""
    round: Whole
    """Its number, counted from 1."""
    lr: Number = ABSENT
    """The clients' learning rate in this round; the first versions did not write it."""
    accuracy: Score
    """Accuracy of the global model on the test set; null in rounds without evaluation."""
    loss: Score
    """Its loss on the test set; null in rounds without evaluation."""
    train: Scores
    """The mean of every term of the local objective: `task` and those of the methods."""
    clients: list[Client]
    """What each client that took part reported."""
    refused: list[Refused]
    """Which clients were left out, and why."""
    sites: dict[str, str] = ABSENT
    """The names of sites that have one, by partition: in the first round, and after a change."""
    secagg: SecureTotals = ABSENT
    """With `--secagg`: totals over all clients."""
    methods: Scores = ABSENT
    """What the methods report, as METHOD.NAME: `fedexp.step`."""
    optimizer: Optimizer = ABSENT
    """With `--optimizer-state kept`: what became of the clients' optimisers."""
    memory: Fallbacks = ABSENT
    """What became of the clients' memories, if some could not be read."""
    dp: Budget = ABSENT
    """With `--dp`: the privacy budget spent so far."""
    evaluation: Evaluation
    """Further scores of this round."""
    validation: Validation = ABSENT
    """With `--validation`: scores on the clients' validation shares."""
    diagnostics: Diagnostics = ABSENT
    """With `--diagnostics`: drift and scores of local models."""
    bytes_up: Whole
    """Bytes that the clients sent."""
    bytes_down: Whole
    """Bytes that the server sent."""
    seconds: Times
    """How long the round and its phases took."""


class HeldOutLine(Part):
    """With `--server-data none`: what the sites' held-out data say of the model of a round."""

    kind: Literal["held_out"]
    """`held_out`."""
    round: Whole
    """The round whose model was scored; the sites score it while they train in the next one."""
    model: Literal["global", "personal"]
    """Which model: the `global` one, or each site's own (`personal`), where only a part is
    shared."""
    by_examples: Scores
    """The mean of each score over the sites, weighted by their held-out samples: the headline."""
    by_sites: Scores
    """The mean of each score over the sites, where every site counts once."""
    holding: Whole
    """How many sites hold out data and have reported scores."""
    examples: Whole
    """How many samples they hold out."""
    without: Whole
    """How many sites that answered hold out nothing."""
    without_partitions: list[Whole] = ABSENT
    """Which ones; not under secure aggregation."""


class NoteLine(Part):
    """What a method decided or reports during a round."""

    kind: Literal["note"]
    """`note`."""
    round: Whole
    """The round."""
    text: str
    """The sentence."""
    progress: bool = ABSENT
    """True if it only reports progress; the summary then leaves it out."""


class RetryLine(Part):
    """A round that failed and may be tried again."""

    kind: Literal["retry"]
    """`retry`."""
    round: Whole
    """The round."""
    attempt: Whole
    """Which attempt failed, counted from 1."""
    reason: str
    """Why, in a sentence."""


class PreparationLine(Part):
    """How long clients worked before their first round, for a method that needs it."""

    kind: Literal["preparation"]
    """`preparation`."""
    round: Whole
    """The round that follows."""
    clients: list[dict[str, Number]]
    """`partition` and `seconds` of each client."""
    seconds: Number
    """How long the server waited for all of them."""


class FormedColumn(Part):
    """The normalisation of one column of a table."""

    mean: Number
    """Its mean, which is subtracted."""
    std: Number
    """Its standard deviation, by which it is divided; 1 for a column of one value."""
    count: Whole
    """How many values there are in all clients' training rows."""


class NormalisationLine(Part):
    """Means and deviations of a table, formed of the clients' sums before the first round."""

    kind: Literal["normalisation"]
    """`normalisation`."""
    round: Whole
    """0."""
    columns: dict[str, FormedColumn]
    """By name; columns whose mean and deviation are in the schema are not listed."""
    clients: list[Whole]
    """The partitions whose rows are in the sums."""


class SummaryLine(Part):
    """The last line: how the run ended."""

    kind: Literal["summary"]
    """`summary`."""
    status: Literal["finished", "failed", "interrupted"]
    """`finished`, `failed` or `interrupted`."""
    reason: str = ABSENT
    """Why it failed or was interrupted."""
    rounds: Whole
    """The last finished round."""
    final_accuracy: Score
    """Accuracy in the last evaluated round."""
    best_accuracy: Score
    """The best of all evaluated rounds."""
    last5_accuracy: Score
    """The mean of the last five evaluated rounds."""
    final_evaluation: Evaluation
    """Further scores of the last evaluation."""
    final_held_out: HeldOutLine = ABSENT
    """With `--server-data none`: the last line of kind `held_out`."""
    target_accuracy: Number = ABSENT
    """With `--target`: that accuracy."""
    rounds_to_target: Whole | None = ABSENT
    """With `--target`: the first round that reached it; null if none did."""
    notes: list[str] = ABSENT
    """Cautions, and what methods decided."""
    idle: dict[str, str] = ABSENT
    """Methods that changed nothing, each with the reason."""
    dp: Budget = ABSENT
    """With `--dp`: the privacy budget of the whole run."""
    bytes_up: Whole
    """Bytes that the clients sent in all rounds."""
    bytes_down: Whole
    """Bytes that the server sent in all rounds."""
    seconds: Number = ABSENT
    """How long a finished run took; after `--resume`, since then."""
    stopped_early: bool = ABSENT
    """True if `--patience` ran out."""
    samples: Whole = ABSENT
    """With `--diagnostics`: training samples processed, repeats included."""
    best_validation_loss: Score = ABSENT
    """With `--validation`: the best validation loss."""
    best_round: Whole = ABSENT
    """The round that had it; `best.safetensors` is its model."""
    best_round_accuracy: Score = ABSENT
    """Accuracy of that round on the test set."""
    waited: Whole = ABSENT
    """Evaluations since then without a better one."""


class OtherLine(Part):
    """A line of a kind that this version does not know."""

    round: Whole = ABSENT


LINES: tuple[type[Part], ...] = (
    *(ConfigLine, RoundLine, HeldOutLine, NoteLine, RetryLine, PreparationLine, NormalisationLine),
    SummaryLine,
)
KINDS = {get_args(line.model_fields["kind"].annotation)[0]: line for line in LINES}
# The keys that readers cannot do without; earlier versions and other programs left out others.
NEEDED = {
    *("methods", "seed", "rounds", "warm-start", "round", "seconds", "seconds.round", "status"),
    *("bytes_up", "bytes_down", "clients.partition", "refused.partition", "refused.reason"),
    *("reason", "text", "dp.delta", "memory.fell_back"),
}


def find_problem(line: Any) -> str:
    """Say what is wrong with a line; "" if it has everything that its readers rely on."""
    kind = line.get("kind") if isinstance(line, dict) else None
    if not isinstance(kind, str):
        return "is not of a run"
    try:
        KINDS.get(kind, OtherLine).model_validate(line)
    except ValidationError as error:
        for detail in error.errors():
            key = ".".join(map(str, detail["loc"]))
            if detail["type"] == "missing" and re.sub(r"\.\d+", "", key) in NEEDED:
                return f"is a {kind} without {key!r}"
            if detail["type"] not in ("missing", "extra_forbidden"):
                return f"is a {kind} with {key}={_shorten(detail['input'])}: {_say(detail['msg'])}"
    return ""


def _shorten(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."


def _say(message: str) -> str:
    """Return pydantic's message as the end of a sentence, without the names of its classes."""
    text = message.removeprefix("Value error, ").partition(" or instance of ")[0]
    return f"{text[:1].lower()}{text[1:]}"
