"""Records of a comparison without any run, for tests of what is made of them."""

import json
from pathlib import Path
from typing import Any

from fedmirage.comparison.outcome import record
from fedmirage.comparison.plan import QUESTION, Job, Plan, make_plan
from fedmirage.comparison.rows import Question

METHODS = ("fedcog(start=2)", "vhl(width=8)", "lg-fedavg")
# Accuracy of the last of seven rounds by row and seed; earlier rounds have one per cent less each.
FINAL = {
    "fedavg": (0.60, 0.62, 0.61),
    "fedcog": (0.70, 0.73, 0.71),
    "fedcog placebo": (0.71, 0.71, 0.72),
    "vhl": (0.50, 0.51, 0.52),
    "vhl placebo": (0.40, 0.405, 0.42),
    "lg-fedavg": (0.30, 0.31, 0.90),
}
ROUNDS = 7
CLIENTS = 5


def plan_records(
    folder: Path, seeds: str = "0,1,2", question: Question = QUESTION, **settings: Any
) -> Plan:
    """Plan six rows: FedAvg, two methods with their placebos, and one without a global model."""
    layers = [{"rounds": ROUNDS, "clients": CLIENTS, "out": str(folder), **settings}]
    asked: dict[str, Any] = {"controls": True, "tune": 0, "schedules": [], "share": False}
    return make_plan(layers, METHODS, seeds, **asked, question=question)


def write_records(plan: Plan, failed: dict[Path, str] | None = None) -> None:
    """Write the records of all runs of the plan, and of the comparison."""
    jobs = plan.runs({})
    for job in jobs:
        write_run(job, final_of(plan, job), local=job.row.methods == "lg-fedavg")
    record(plan, jobs, failed or {})


def final_of(plan: Plan, job: Job) -> float:
    """The last accuracy of a run of the plan."""
    names = [row.methods for row in plan.rows]
    return list(FINAL.values())[names.index(job.row.methods)][job.config.seed]


def write_run(job: Job, final: float, local: bool = False) -> None:
    """Write the record of a finished run of seven rounds, 1 MB up and down and 2 s each."""
    config = {"kind": "config", **job.config.flat()}
    config["resolved"] = {"class_names": [str(number) for number in range(10)]}
    config["versions"] = {"fedmirage": "0"}
    lines: list[dict[str, Any]] = [config]
    lines += [round_line(number, final, local) for number in range(1, ROUNDS + 1)]
    summary = {"kind": "summary", "status": "finished", "rounds": ROUNDS}
    summary |= {"final_evaluation": {} if local else {"confusion": confusion()}}
    summary |= {"bytes_up": ROUNDS * 1_000_000, "bytes_down": ROUNDS * 1_000_000}
    write_lines(job.folder, [*lines, summary])


def round_line(number: int, final: float, local: bool = False) -> dict[str, Any]:
    """Make the line of a round; every client processes 100 samples."""
    accuracy = round(final - 0.01 * (ROUNDS - number), 4)
    scores = {"average_of_local_models.on_test.by_examples.accuracy": accuracy}
    recall = {"recall": [accuracy] * 9 + [None]}
    line = {"kind": "round", "round": number, "accuracy": None if local else accuracy}
    line |= {"loss": None if local else 1 - accuracy, "evaluation": scores if local else recall}
    line |= {"seconds": {"clients": 1.0, "aggregate": 0.5, "evaluate": 0.25, "round": 2.0}}
    line |= {"bytes_up": 1_000_000, "bytes_down": 1_000_000, "diagnostics": {"drift": 0.5}}
    line["train"] = {"task": 1 - accuracy, "alignment": 0.5}
    line["clients"] = [
        {"partition": client, "samples": 100, "diagnostics.local_model.on_test.accuracy": 0.2}
        for client in range(CLIENTS)
    ]
    return line


def confusion() -> list[list[int]]:
    """Make a confusion in which every tenth answer goes to the next class."""
    return [
        [9 * (row == column) + (column == (row + 1) % 10) for column in range(10)]
        for row in range(10)
    ]


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Read the record of a run."""
    return [json.loads(text) for text in (folder / "results.jsonl").read_text().splitlines()]


def write_lines(folder: Path, lines: list[dict[str, Any]]) -> None:
    """Write the record of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "results.jsonl").write_text(text)
