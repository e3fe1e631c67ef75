"""Weights & Biases, if its package is installed."""

import os
from collections.abc import Mapping
from typing import Any

from fedmirage.follow.logger import Logger, Opening
from fedmirage.records.flat import flatten

PROJECT = "fedmirage"


class WandbLogger(Logger):
    """Sends a run to the project of `WANDB_PROJECT`, or else to `fedmirage`.

    Its own variables decide where that is and whether it is sent at all (`WANDB_MODE=offline`).
    """

    module = install = "wandb"

    def begin(self, opening: Opening) -> str:
        """Open a run of its own, even beside others in this process, or continue one."""
        import wandb

        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            group=opening.group,
            name=opening.name,
            id=opening.identity or None,
            resume="allow",
            reinit="create_new",
            dir=str(opening.folder),
            config=dict(opening.config),
            settings=wandb.Settings(silent=True, console="off"),
        )
        # Its own step cannot go back, which a round that is repeated after an interruption does.
        self.run.define_metric("*", step_metric="round")
        return str(self.run.id)

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics with the number of their round."""
        self.run.log({"round": number, **metrics})

    def end(self, summary: Mapping[str, Any]) -> None:
        """Send the summary, and say whether the run went well."""
        self.run.summary.update(flatten(summary))
        self.run.finish(exit_code=0 if summary.get("status") == "finished" else 1)
