"""TensorBoard: event files in the folder of the run."""

import json
from collections.abc import Mapping
from typing import Any

from fedmirage.follow.logger import Logger, Opening

FOLDER = "tensorboard"


class TensorBoardLogger(Logger):
    """Writes scalars by round; the settings and the summary are texts.

    `tensorboard --logdir FOLDER` shows a run, or all runs of a comparison under their names.
    """

    module = "tensorboard.summary.writer"
    install = "fedmirage[tensorboard]"

    def begin(self, opening: Opening) -> str:
        """Add an event file; rounds that are logged again replace those of an older file."""
        from torch.utils.tensorboard import SummaryWriter

        place, first = opening.folder / FOLDER, opening.logged + 1
        # Beside an older file, `purge_step` makes TensorBoard drop what that has from there on.
        again = first if place.exists() else None
        self.writer = SummaryWriter(str(place), purge_step=again)
        self.round = opening.logged
        self._write_text("config", opening.config)
        return ""

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric; what comes before the first dot groups them."""
        self.round = number
        for name, value in metrics.items():
            self.writer.add_scalar(name.replace(".", "/", 1), value, number)
        self.writer.flush()

    def end(self, summary: Mapping[str, Any]) -> None:
        """Write the summary and close the file."""
        if summary:
            self._write_text("summary", summary)
        self.writer.close()

    def _write_text(self, tag: str, content: Mapping[str, Any]) -> None:
        # Four leading spaces are code in TensorBoard's Markdown.
        shown = json.dumps(content, indent=1).splitlines()
        self.writer.add_text(tag, "\n".join(f"    {line}" for line in shown), self.round)
