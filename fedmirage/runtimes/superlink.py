"""Submits a run to a SuperLink, and waits for its end, by Flower's own command line."""

import contextlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.records.lines import find_summary
from fedmirage.runtimes.bundle import app_folder

PROGRAMS = Path(sys.executable).parent
ENDED = "finished"  # how the status of a run that is over begins
ANSWER = 120.0  # seconds in which Flower's command line must have answered
REASON = "ServerApp failed with exception: "  # how Flower begins the details of a failed run
GONE = 600.0  # seconds after which a SuperLink that does not answer is given up
STATUS_EVERY = 30.0  # seconds between two requests for the run's status
NOT_BEGUN = ("pending", "starting")  # the status of a run that nobody has taken up yet


class LostRunError(FedmirageError):
    """A run is over, and has left no summary."""


class SuperLink:
    """A SuperLink, which Flower's config.toml knows by a name."""

    start_within = math.inf  # seconds; runs may have to wait for others

    def __init__(
        self, name: str, environment: Mapping[str, str], log: str, every: float = STATUS_EVERY
    ) -> None:
        self.name, self.environment, self.log, self.every = name, dict(environment), log, every
        self.heard = time.monotonic()  # when it last answered

    def submit(self, config: RunConfig) -> str:
        """Submit the app and its configuration; return Flower's id of the run."""
        with tempfile.TemporaryDirectory() as folder:
            settings = Path(folder) / "run.toml"
            settings.write_text(tomli_w.dumps(config.flat()))
            app = str(app_folder(Path(folder) / "app"))
            answer = self.flwr("run", app, self.name, "--run-config", str(settings))
        if not answer.get("success"):
            reason = answer.get("error-message", answer)
            raise FedmirageError(f"Flower did not start the run: {reason}")
        return str(answer["run-id"])

    def wait(
        self, run_id: str, folder: Path, earlier: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Wait until results.jsonl has its summary, and return it.

        A run that ends without one has failed, whatever Flower's exit codes say. A run that is
        resumed may have an `earlier` one, which counts only if the run ends without another.
        """
        began = asked = time.monotonic()
        while not (summary := find_summary(folder)) or summary == earlier:
            time.sleep(0.3)
            self.check()
            if time.monotonic() - asked > self.every:
                asked = time.monotonic()
                run = self.follow(run_id)
                if run.get("status", "").startswith(ENDED):
                    if summary := find_summary(folder):
                        break
                    raise self.failure(run)
                if run.get("status") in NOT_BEGUN and asked - began > self.start_within:
                    raise FedmirageError(
                        f"the SuperLink has not begun the run within {self.start_within:.0f} s; its"
                        f" SuperExec may have been lost. See {self.log}, and start the run again"
                    )
        return summary

    def failure(self, run: Mapping[str, Any]) -> LostRunError:
        """Make the error of a run that left no summary, with the reason that Flower kept."""
        reason = str(run.get("status-details") or "N/A").removeprefix(REASON)
        known = "without a summary" if reason == "N/A" else f"({reason})"
        return LostRunError(f"the run ended as {run['status']} {known}; see {self.log}")

    def check(self) -> None:
        """Raise a reason why the run cannot end any more, if there is one."""

    def follow(self, run_id: str) -> dict[str, Any]:
        """Ask about a run again; give up a SuperLink that has been silent for too long."""
        now, run = time.monotonic(), self.find_run(run_id)
        self.heard = now if run else self.heard
        if now - self.heard > GONE:
            raise FedmirageError(
                f"the SuperLink has not answered for {GONE:.0f} s; see {self.log}. When it runs"
                " again, continue the run with --resume"
            )
        return run

    def find_run(self, run_id: str) -> dict[str, Any]:
        """Ask the SuperLink about a run, e.g. its "status": "running" or "finished:completed"."""
        try:
            runs = self.flwr("list", self.name, "--run-id", run_id).get("runs", [])
        except FedmirageError:
            runs = []  # a busy machine is no reason to end a run
        return dict(runs[0]) if runs else {}

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """Call Flower's own command line and return its answer, which is JSON."""
        command = [str(PROGRAMS / "flwr"), *arguments, "--format", "json"]
        try:
            done = subprocess.run(
                command,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=ANSWER,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FedmirageError(
                f"flwr {arguments[0]} did not answer within {ANSWER:.0f} s; see {self.log}"
            ) from None
        for start in (place for place, sign in enumerate(done.stdout) if sign == "{"):
            with contextlib.suppress(json.JSONDecodeError):
                answer: dict[str, Any] = json.loads(done.stdout[start:])
                return answer
        said = (done.stderr or done.stdout).strip() or f"it ended with code {done.returncode}"
        raise FedmirageError(f"flwr {arguments[0]} failed: {said}")
