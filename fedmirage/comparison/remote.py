"""The runs of a command on a Ray cluster, as the command sees them."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.launch import make_error
from fedmirage.runtimes.processes import Processes, environment


class LostHostError(Exception):
    """A run was lost with its host, or the process that did it there was ended."""


class RemoteRuns:
    """Starts the process that joins the cluster (comparison/driver.py), and hands it runs."""

    def __init__(
        self,
        processes: Processes,
        address: str,
        configs: Sequence[RunConfig],
        actors: int,
        verbose: bool,
        checks: bool,
    ) -> None:
        reader, writer = os.pipe()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the process runs
        output = None if verbose else self.log
        command = [sys.executable, "-P", "-m", "fedmirage.comparison.driver"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": output, "stderr": output}
        self.process = processes.spawn(command, environment(), **pipes, pass_fds=[writer])
        os.close(writer)
        self.pipe = os.fdopen(reader, "rb")
        self.numbers, self.lock = count(), threading.Lock()
        self.answers: dict[int, queue.SimpleQueue[Mapping[str, Any]]] = {}
        # A run is checked with its data; what else differs needs no second look.
        distinct = {(one.dataset, one.threads, one.device): one for one in configs}
        asked: dict[str, Any] = {
            "address": address,
            "configs": [one.flat() for one in distinct.values()],
        }
        asked |= {"actors": actors, "runs": len(configs), "verbose": verbose, "checks": checks}
        self._write({**asked, "pipe": writer})
        said = json.loads(self.pipe.readline() or b"{}")
        if "at_once" not in said:
            raise self._explain(said)
        self.actors, self.at_once = int(said["actors"]), int(said["at_once"])
        threading.Thread(target=self._listen, daemon=True).start()

    def do(self, config: RunConfig, folder: Path, begin: Callable[[], None]) -> None:
        """Do a run; `begin` is called as soon as a host has room for it."""
        answers: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        with self.lock:
            number = next(self.numbers)
            self.answers[number] = answers
            self._write({"run": number, "config": config.flat(), "folder": str(folder)})
        while True:
            said = answers.get()
            if "host" in said:
                begin()
            elif "lost" in said:
                raise LostHostError(said["lost"])
            elif "done" not in said:
                raise self._explain(said)
            elif said["done"]:
                raise FedmirageError(said["done"])
            else:
                return

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # why it has ended is found by whoever reads
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()

    def _listen(self) -> None:
        """Hand answers to whoever waits for them; the end of the process is one for all."""
        for line in self.pipe:
            said = json.loads(line)
            if "run" in said:
                self.answers[said["run"]].put(said)
        with self.lock:
            for answers in self.answers.values():
                answers.put({})

    def _explain(self, said: Mapping[str, Any]) -> FedmirageError:
        """Say why the process has ended."""
        code = self.process.wait()
        self.log.seek(0)
        return make_error(dict(said), code, self.log.read().decode(errors="replace"))
