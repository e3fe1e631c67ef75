"""A run as Python has it: frames, pictures, the model, and the page about it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmirage.common.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from fedmirage.trained.model import TrainedModel

SHOWN = ("status", "rounds", "final_accuracy", "best_accuracy", "last5_accuracy", "seconds")


class RunResult:
    """What a run left in its folder. Frames are attributes, pictures are methods."""

    def __init__(self, folder: str | Path, network: str = "") -> None:
        from fedmirage.records.lines import read_record

        self.network = network  # the line of a network that may be imported, for `model`
        self.folder = Path(folder).expanduser().absolute()
        self.lines = read_record(self.folder)
        if not self.lines:
            raise DataError(f"there are no results in {self.folder}; give the folder of a run")

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, with versions and facts about the data: line 1 of results.jsonl."""
        return self.lines[0]

    @property
    def summary(self) -> dict[str, Any]:
        """How the run ended; of a run that has not ended, as far as it is."""
        from fedmirage.records.lines import summarise_so_far

        return summarise_so_far(self.lines)

    @cached_property
    def rounds(self) -> DataFrame:
        """One row per round, with a column for every metric (`accuracy`, `train.task`, ...).

        Rounds that a warm start took over are in the run from which it started.
        """
        from fedmirage.records.flat import flatten_round

        return self._frame([flatten_round(line) for line in self._rounds], ["round"])

    @cached_property
    def clients(self) -> DataFrame:
        """One row per round and client, with its site's name, and everything that it reported.

        Under secure aggregation the server knows only who took part; a simulation has no sites.
        """
        from fedmirage.records.flat import flatten
        from fedmirage.records.lines import read_names

        names = read_names(self._rounds)
        rows = [
            {
                "round": line["round"],
                **({"site": names.get(client["partition"], "")} if names else {}),
                **flatten(client),
            }
            for line in self._rounds
            for client in line.get("clients", [])
        ]
        return self._frame(rows, ["round", "partition"])

    def plot(self, *columns: str) -> Figure:
        """Draw columns of `rounds` by round; without any, the accuracy."""
        from fedmirage.api.plots import draw_rounds

        chosen = columns or ("accuracy",)
        if lacking := [name for name in chosen if name not in self.rounds]:
            raise DataError(
                f"rounds has no column {', '.join(map(repr, lacking))}; it has"
                f" {', '.join(self.rounds) or 'none, because no round is over yet'}"
            )
        return draw_rounds(self.rounds, chosen, self.settings["methods"])

    def model(self, model: Any = "") -> TrainedModel:
        """Load the model of the last round, as `fedmirage.load_model` does.

        Only the object that `fedmirage.run` returned knows your own network without being told.
        """
        from fedmirage.api.calls import load_model

        return load_model(self.folder / "model.safetensors", model or self.network)

    def page(self) -> Path:
        """Write report.html, the page about this run, into its folder; return its path."""
        return write_page(self.folder)

    @property
    def _rounds(self) -> list[dict[str, Any]]:
        from fedmirage.records.lines import rounds_of

        return rounds_of(self.lines)

    @staticmethod
    def _frame(rows: list[dict[str, Any]], index: list[str]) -> DataFrame:
        from pandas import DataFrame

        return DataFrame(rows).set_index(index) if rows else DataFrame(columns=index)

    def __repr__(self) -> str:
        status, rounds = self.summary["status"], self.summary["rounds"]
        return (
            f"<Run {self.settings['methods']!r}: {status} after round {rounds}, {self.folder.name}>"
        )

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        summary = self.summary
        shown = {"methods": self.settings["methods"]}
        shown |= {name: summary[name] for name in SHOWN if summary.get(name) is not None}
        cells = {name.replace("_", " "): [value] for name, value in shown.items()}
        return str(DataFrame(cells).T.to_html(header=False, float_format="{:.4g}".format))


def write_page(folder: Path) -> Path:
    """Write the page about a run or a comparison into its folder."""
    from fedmirage.report.command import write_report

    return write_report([folder], None, {}, tsne=False)[0]["page"]
