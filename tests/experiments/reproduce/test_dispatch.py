"""What is not recorded is listed with its command and its cost."""

import re
from pathlib import Path

import pytest

from experiments.reproduce.cost import Clock
from experiments.reproduce.dispatch import command_of, find_left, write_open
from experiments.reproduce.pages import README
from experiments.reproduce.queue import Queue, QueueJob, read_queue
from experiments.reproduce.records import RESULTS
from fedmirage.common.errors import ConfigurationError

QUEUE = """
out = "{out}"
results = "{results}"
job = [
    {{ name = "fedavg", seeds = [0, 1], settings = {{ rounds = 2 }} }},
    {{ name = "late", settings = {{ rounds = 2, methods = "{late}" }}, parent = "fedavg@1" }},
]
"""


LATE = "fedcog(start=2)"


class ConstantClock(Clock):
    """Says that a step takes a second."""

    def step(self, config: object) -> float:
        return 1.0


def test_the_list_has_a_line_per_job_with_what_is_left(tmp_path: Path) -> None:
    path, readme = tmp_path / "queue.toml", tmp_path / README
    path.write_text(QUEUE.format(out=tmp_path / "runs", results=tmp_path, late=LATE))
    readme.write_text("<!-- table: open -->\n<!-- end -->\n")
    assert write_open(path, ConstantClock()) == readme
    *_, fedavg, late, _ = readme.read_text().splitlines()
    assert fedavg.startswith("| fedavg | 0, 1 | `fedmirage run --rounds 2` | ")
    command = 'fedmirage run --rounds 2 --methods "fedcog(start=2)" --warm-start runs/fedavg@1'
    assert late.startswith(f"| late | 0 | `{command}` | ")
    path.write_text(QUEUE.format(out=tmp_path / "runs", results="", late=LATE))
    with pytest.raises(ConfigurationError, match="nothing of it is ever recorded"):
        write_open(path, ConstantClock())


def test_the_command_of_a_cell_names_the_cell() -> None:
    cell = {"table": "fedcog/table1", "row": "fedavg", "column": "fmnist-niid2"}
    command = command_of(QueueJob.model_validate({"name": "one", "cell": cell}))
    assert command.startswith(
        "fedmirage reproduce fedcog/table1 --row fedavg --column fmnist-niid2"
    )


def test_the_committed_list_has_every_run_that_is_not_recorded() -> None:
    """`fedmirage reproduce --queue docs/results/queue.toml --estimate` makes it anew."""
    path = RESULTS / "queue.toml"
    jobs = {job.folder.name: job for job in read_queue(path).jobs}
    text = (RESULTS / README).read_text().partition("<!-- table: open -->")[2]
    listed = dict(re.findall(r"^\| (\S+) \| ([\d, ]+) \| `", text, re.MULTILINE))
    left = {one.name: find_left(one, jobs, RESULTS) for one in Queue.read(path, "queue").job}
    assert listed == {name: ", ".join(map(str, seeds)) for name, seeds in left.items() if seeds}
