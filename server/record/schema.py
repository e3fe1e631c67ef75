"""What every line of results.jsonl must hold for its readers, by its kind.

The file may have been damaged, or written by another program. Whatever a reader computes with is
checked here once, so that no reader has to ask. Further keys are allowed.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fedmirage.server.record.shown import AVERAGE, SHARD

LONGEST = 60  # characters of a value that a sentence repeats
ABSENT: Any = None  # of what a line may lack; nobody reads this default

Whole = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Score = Number | None  # what was not finite is written as null
Scores = dict[str, Score]
Texts = list[str]


def _require_square(table: list[list[Whole]]) -> list[list[Whole]]:
    if any(len(row) != len(table) for row in table):
        raise ValueError("it must have as many columns as rows")
    return table


class Part(BaseModel):
    """An object that may hold more than it must."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)


class Resolved(Part):
    """What line 1 says about the run beside its settings."""

    token: str = ABSENT
    fingerprint: str = ABSENT
    class_names: Texts = ABSENT


class Client(Part):
    """What one client reported."""

    __pydantic_extra__: dict[str, Score] = Field(init=False)
    partition: Whole
    examples: Whole = ABSENT
    samples: Number = ABSENT
    train: Scores = ABSENT


class Refused(Part):
    """A client that was left out."""

    partition: Whole
    reason: str


class Evaluation(Part):
    """Scores of the global model and of the local ones."""

    recall: list[Score] = ABSENT
    domains: Scores = ABSENT
    accuracy_domain_mean: Score = ABSENT
    on_shards: Score = Field(ABSENT, alias=SHARD)
    of_average: Score = Field(ABSENT, alias=AVERAGE)
    confusion: Annotated[list[list[Whole]], AfterValidator(_require_square)] = ABSENT


class Budget(Part):
    """How much of the privacy budget was spent; an infinite epsilon is null."""

    epsilon: Score = ABSENT
    delta: Number
    clipped: Score = ABSENT


class Memory(Part):
    """How many clients lost something of what they remembered."""

    fell_back: Whole


class Seconds(Part):
    """How long a round and its phases took."""

    __pydantic_extra__: dict[str, Number] = Field(init=False)
    round: Number


class Validation(Part):
    """Scores on the clients' validation samples."""

    loss: Score = ABSENT
    accuracy: Score = ABSENT


class ConfigLine(Part):
    """Line 1: all settings, which the configuration checks itself, and what followed from them."""

    methods: str
    seed: Whole
    rounds: Whole
    warm_start: str = Field(alias="warm-start")
    out: str = ABSENT
    target: Number = ABSENT
    cautions: Texts = ABSENT
    acts_from: dict[str, Whole] = ABSENT
    resolved: Resolved = ABSENT
    versions: dict[str, str] = ABSENT


class RoundLine(Part):
    """A round."""

    round: Whole
    accuracy: Score = ABSENT
    loss: Score = ABSENT
    bytes_up: Whole
    bytes_down: Whole
    seconds: Seconds
    train: Scores = ABSENT
    methods: Scores = ABSENT
    diagnostics: Scores = ABSENT
    evaluation: Evaluation = ABSENT
    validation: Validation = ABSENT
    clients: list[Client] = ABSENT
    refused: list[Refused] = ABSENT
    memory: Memory = ABSENT
    dp: Budget = ABSENT


class NoteLine(Part):
    """What a method or a client wants to be known."""

    round: Whole
    text: str


class RetryLine(Part):
    """A round that was tried again."""

    round: Whole
    reason: str


class OtherLine(Part):
    """What none of the readers that compute uses, such as a preparation."""

    round: Whole = ABSENT


class SummaryLine(Part):
    """How the run ended."""

    status: str
    rounds: Whole
    reason: str = ABSENT
    final_accuracy: Score = ABSENT
    best_accuracy: Score = ABSENT
    last5_accuracy: Score = ABSENT
    bytes_up: Whole = ABSENT
    bytes_down: Whole = ABSENT
    seconds: Number = ABSENT
    final_evaluation: Evaluation = ABSENT
    notes: Texts = ABSENT
    idle: dict[str, str] = ABSENT
    dp: Budget = ABSENT


KINDS: dict[str, type[Part]] = {
    "config": ConfigLine,
    "round": RoundLine,
    "note": NoteLine,
    "retry": RetryLine,
    "summary": SummaryLine,
}


def find_problem(line: Any) -> str:
    """Say what is wrong with a line; "" if it has everything that its readers rely on."""
    kind = line.get("kind") if isinstance(line, dict) else None
    if not isinstance(kind, str):
        return "is not of a run"
    try:
        KINDS.get(kind, OtherLine).model_validate(line)
    except ValidationError as error:
        detail = error.errors()[0]
        key = ".".join(map(str, detail["loc"]))
        if detail["type"] == "missing":
            return f"is a {kind} without {key!r}"
        value = repr(detail["input"])
        shown = value if len(value) <= LONGEST else f"{value[:LONGEST]}..."
        message = detail["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
        return f"is a {kind} with {key}={shown}: {message[:1].lower()}{message[1:]}"
    return ""
