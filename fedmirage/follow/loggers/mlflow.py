"""MLflow, if its package is installed."""

import json
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from fedmirage.follow.logger import Logger, Opening

EXPERIMENT = "fedmirage"
LENGTH = 500  # characters of a parameter that every version of MLflow takes
STATUS = {"finished": "FINISHED", "failed": "FAILED"}


class MlflowLogger(Logger):
    """Records a run in the experiment of `MLFLOW_EXPERIMENT_NAME`, or else in `fedmirage`.

    `MLFLOW_TRACKING_URI` decides where. MLflow's client has no current run, unlike `mlflow.log_*`,
    so that several runs can be recorded at the same time.
    """

    module = install = "mlflow"

    def begin(self, opening: Opening) -> str:
        """Create a run and give it the settings, or reopen the one that there is."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self.client = MlflowClient()
        if opening.identity:
            self.identity = opening.identity
            self.client.update_run(self.identity, status="RUNNING")
            return self.identity
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = self.client.get_experiment_by_name(name)
        place = known.experiment_id if known else self.client.create_experiment(name)
        tags = {"group": opening.group}
        run = self.client.create_run(place, run_name=opening.name, tags=tags)
        self.identity = str(run.info.run_id)
        texts = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in opening.config.items()
        }
        params = [Param(key, text[:LENGTH]) for key, text in texts.items()]
        self.client.log_batch(self.identity, params=params)
        return self.identity

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics in one message, the number of the round as their step."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        sent = [Metric(_spell(name), value, now, number) for name, value in metrics.items()]
        self.client.log_batch(self.identity, metrics=sent)

    def end(self, summary: Mapping[str, Any]) -> None:
        """Keep the summary as a file of the run, and say how the run ended."""
        if summary:
            self.client.log_dict(self.identity, dict(summary), "summary.json")
        self.client.set_terminated(self.identity, STATUS.get(summary.get("status", ""), "KILLED"))


def _spell(name: str) -> str:
    """Replace what MLflow does not allow in the name of a metric."""
    return re.sub(r"[^\w\-. /]", "_", name, flags=re.ASCII)
