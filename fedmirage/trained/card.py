"""Writes a model card in Markdown: data, training, privacy, scores and limits, as far as known.

Every sentence follows from the model file, from the results of its run, or from an evaluation. What
none of them says is called unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedmirage.common.errors import DataError
from fedmirage.common.method import NETWORK
from fedmirage.common.methods import METHODS
from fedmirage.common.models.files import ModelFacts
from fedmirage.common.settings.language import parse
from fedmirage.records.lines import read_record
from fedmirage.server.record.results import FILE as RESULTS
from fedmirage.trained.export import describe
from fedmirage.trained.shown import NAMES, explain, tell

MODEL = "model.safetensors"
LISTED = 20  # classes by name
UNKNOWN = "unknown: the results of the run are not beside the model file"


@dataclass(frozen=True)
class RunRecord:
    """What results.jsonl says of the run that made a model; empty if it is not there."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    round: Mapping[str, Any] = field(default_factory=dict)  # the line of the model's round
    refused: int = 0  # how often a client was left out of a round, up to then


def find_model(place: Path) -> Path:
    """Find the model file of a run's folder; a file is taken as it is."""
    path = place / MODEL if place.is_dir() else place
    if not path.is_file():
        raise DataError(f"there is no {path}; name a model file, or the folder of a run")
    return path


def find_record(path: Path, facts: ModelFacts) -> RunRecord:
    """Read the results beside a model file, or above `models/`, if they are those of its run."""
    folder = path.parent.parent if path.parent.name == "models" else path.parent
    lines = read_record(folder) if (folder / RESULTS).exists() else []
    if not lines or lines[0].get("methods") != facts.methods:
        return RunRecord()
    rounds = [line for line in lines if line["kind"] == "round" and line["round"] <= facts.round]
    if not rounds or rounds[-1]["round"] != facts.round:
        return RunRecord()
    return RunRecord(lines[0], rounds[-1], sum(len(line["refused"]) for line in rounds))


def write_card(path: Path, facts: ModelFacts, evaluation: Mapping[str, Any] | None = None) -> str:
    """Write the card of a model file, with the scores of an evaluation if there is one."""
    record = find_record(path, facts)
    sections = {
        "": write_summary(facts),
        "Data": write_data(facts, record),
        "Training": write_training(facts, record),
        "Privacy": write_privacy(record),
        "Scores": write_scores(record, evaluation),
        "Limits": write_limits(facts, record, evaluation),
        "Use": write_use(path, facts),
    }
    blocks = [f"# Model card: {facts.methods} on {facts.model}"]
    for title, body in sections.items():
        blocks += [f"## {title}"] * bool(title)
        blocks.append("\n".join(body))
    return "\n\n".join(blocks) + "\n"


def write_summary(facts: ModelFacts) -> Iterator[str]:
    """Say what the model is for."""
    shown = ", ".join(facts.classes[:LISTED])
    more = f" and {len(facts.classes) - LISTED} more" if len(facts.classes) > LISTED else ""
    yield f"- Task: {facts.task} classification into {len(facts.classes)} classes: {shown}{more}"
    yield f"- Network: `{facts.model}`, {facts.parameters:,} numbers"
    yield f"- State: after round {facts.round}; written by fedmirage {facts.version}"


def write_data(facts: ModelFacts, record: RunRecord) -> Iterator[str]:
    """Say what it was trained on."""
    told = describe(facts)
    yield f"- Inputs: {told['inputs'].removeprefix('inputs: ')}; {told['reading']}"
    if told["encoder"]:
        yield f"- They are what the encoder `{told['encoder']}` makes of texts or pictures"
    if not record.settings:
        yield f"- Data set: {UNKNOWN}"
        return
    yield f"- Data set of the server: `{record.settings['dataset']}`, divided by"
    yield f"  `{record.settings['partition']}` where nodes have no data of their own"
    yield f"- Clients: {record.settings['clients']}; in the last round {describe_clients(record)}"
    if fingerprint := record.settings.get("resolved", {}).get("fingerprint"):
        yield f"- Hash of the server's data: `{fingerprint[:16]}`"


def describe_clients(record: RunRecord) -> str:
    """Say how many clients trained in the model's round, on how many samples."""
    clients, totals = record.round.get("clients", []), record.round.get("secagg", {})
    examples = [client["examples"] for client in clients if "examples" in client]
    known = sum(examples) if examples else totals.get("examples")
    samples = "an unknown number of" if known is None else f"{known:,}"
    return f"{len(clients) or totals.get('clients', 0)} trained on {samples} samples"


def write_training(facts: ModelFacts, record: RunRecord) -> Iterator[str]:
    """Say how it was trained, and who invented the methods."""
    yield f"- Methods: `{facts.methods}`"
    for name in (call.name for call in parse(facts.methods, "methods")):
        if name in METHODS.ours:
            kind = METHODS[name]
            yield f"  - {name}: {kind.authors}: [{kind.title}]({kind.link})"
    yield f"- Rounds: {facts.round}" + (
        f" of {record.settings['rounds']}" if record.settings else ""
    )
    if not record.settings:
        yield f"- Further settings: {UNKNOWN}"
        return
    keys = "participation local-epochs local-steps batch-size optimizer lr schedule augment seed"
    told = ", ".join(f"{key} {record.settings[key]}" for key in keys.split())
    yield f"- Settings: {told}"
    versions = ", ".join(f"{name} {one}" for name, one in record.settings["versions"].items())
    yield f"- Versions: {versions}"


def write_privacy(record: RunRecord) -> Iterator[str]:
    """Say what the server saw of each client, and the budget that was spent."""
    if not record.settings:
        yield f"- Secure aggregation and differential privacy: {UNKNOWN}"
        return
    secagg, dp = record.settings["secagg"], record.settings["dp"]
    seen = "only sums of the clients' updates" if secagg != "off" else "the update of each client"
    yield f"- Secure aggregation: {secagg}; the server saw {seen}"
    spent = record.round.get("dp")
    if dp == "off" or not spent:
        yield f"- Differential privacy: {dp}; nothing bounds what the model tells about a sample"
        return
    epsilon = "infinite" if spent.get("epsilon") is None else f"{spent['epsilon']:.3g}"
    yield f"- Differential privacy: `{dp}`; epsilon {epsilon} at delta {spent.get('delta'):.3g}"


def write_scores(record: RunRecord, evaluation: Mapping[str, Any] | None) -> Iterator[str]:
    """Give the scores of an evaluation with intervals, or those of the run without."""
    if evaluation:
        yield f"On {evaluation['samples']} samples, {evaluation['what']} of"
        yield f"`{evaluation['dataset']}`:\n"
        yield from ("| Score | Value | 95% interval |", "|---|---|---|")
        for name, told in evaluation["scores"].items():
            yield "| {} | {} | {} |".format(NAMES[name], *tell(told))
        for column, groups in evaluation["groups"].items():
            yield from (
                "",
                f"| {column} | Samples | Accuracy | 95% interval |",
                "|---|---|---|---|",
            )
            for one in groups:
                value, interval = tell(one["accuracy"])
                yield f"| {one['name']} | {one['samples']} | {value} | {interval} |"
        yield from ("", *explain(dict(evaluation["bootstrap"])))
        return
    found = {**record.round.get("evaluation", {}), "accuracy": record.round.get("accuracy")}
    known = {name: found[name] for name in NAMES if isinstance(found.get(name), float)}
    if not known:
        yield "None are known; `fedmirage card` with `--dataset` adds some."
        return
    yield "On the server's test set, as the run recorded them; `fedmirage card` with `--dataset`"
    yield from ("adds intervals:\n", "| Score | Value |", "|---|---|")
    yield from (f"| {NAMES[name]} | {value:.3f} |" for name, value in known.items())


def write_limits(
    facts: ModelFacts, record: RunRecord, evaluation: Mapping[str, Any] | None
) -> Iterator[str]:
    """Say what the facts do not cover."""
    yield "- It knows its classes only: an input of any other kind gets one of them, too."
    if evaluation:
        known = [one for one in evaluation["classes"] if one["recall"]["value"] is not None]
        worst = min(known, key=lambda one: float(one["recall"]["value"]))
        value, interval = tell(worst["recall"])
        yield f"- Worst class: {worst['name']}, recall {value}" + f" ({interval})" * bool(interval)
        if lacking := [one["name"] for one in evaluation["classes"] if not one["samples"]]:
            yield f"- Classes without a sample in this evaluation: {', '.join(lacking)}"
    elif "worst_class" in (scored := record.round.get("evaluation", {})):
        yield f"- Worst class: {scored['worst_class']}, recall {scored['worst_recall']:.3f}"
    yield "- It was trained once, with one seed; no interval covers what another seed would give."
    if not evaluation or not evaluation["groups"]:
        yield "- Nothing here tells the sites or groups of the data apart."
    if record.refused:
        yield f"- Clients were left out of rounds {record.refused} times; results.jsonl says why."
    yield from (f"- {caution}" for caution in record.settings.get("cautions", []))
    if facts.task == "multi-label":
        yield "- A class counts as present above a probability of 0.5, which nothing has tuned."


def write_use(path: Path, facts: ModelFacts) -> Iterator[str]:
    """Show the commands that use it."""
    if not set(NETWORK) <= set(facts.parts):
        yield f"The file holds only {' and '.join(facts.parts)}; the rest stayed with the clients."
        yield "Each assembles its own model on its own host:\n"
        yield from (
            "```",
            f"fedmirage personal RUN --shared {path.name} --out mine.safetensors",
            "```",
        )
        return
    own = f" --model '{facts.model}'" if ":" in facts.model else ""
    yield "```"
    yield f"fedmirage predict {path.name} INPUT...{own}"
    yield f"fedmirage evaluate {path.name} --dataset LINE{own}"
    yield f"fedmirage export {path.name} --to onnx --out model.onnx{own}"
    yield "```"
