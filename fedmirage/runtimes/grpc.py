"""The grpc runtime: a real SuperLink and real SuperNodes on free loopback ports of this host.

They have a FLWR_HOME of their own.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w
from rich.console import Console

from fedmirage.client.node.redaction import VARIABLE
from fedmirage.common.errors import TRACEBACK, FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.bundle import app_folder
from fedmirage.runtimes.processes import Processes, environment
from fedmirage.server.record import checkpoint
from fedmirage.server.record.results import FILE, Results, read_results

ENVIRONMENT = {
    # Otherwise every run would begin with a download of torch.
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}
PROGRAMS = Path(sys.executable).parent
ENDED = "finished"  # how the status of a run that is over begins
STATUS_EVERY = 30.0  # seconds between two requests for the run's status


def deploy(config: RunConfig, console: Console, verbose: bool = False, code: str = "own") -> None:
    """Start everything, submit the run, wait for its end, and stop everything.

    If the run fails, the reason is raised. The run brings the code that is installed here, so that
    nodes that run their own code only (fedmirage/node) can have it loaded before.
    """
    folder = Path(config.resume or config.out)
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    if config.resume:  # its earlier summary would look like the end of this run
        Results(folder).forget_after(checkpoint.read_checkpoint(folder / checkpoint.FILE).round)
    else:
        (folder / FILE).unlink(missing_ok=True)  # of a run that never finished a round
    with (
        tempfile.TemporaryDirectory(prefix=".flower-", dir=folder) as home,
        Federation(Path(home), logs, verbose, code) as federation,
    ):
        federation.start(config, folder / "memory")
        text = f"grpc: SuperLink at {federation.fleet}, {config.clients} SuperNodes, logs in {logs}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
        run_id = federation.submit(config)
        federation.wait(run_id, folder)


class Federation:
    """The processes of one federation; whatever happens, none of them outlives the `with` block."""

    def __init__(self, home: Path, logs: Path, verbose: bool, code: str = "own") -> None:
        self.home, self.logs, self.verbose, self.code = home, logs, verbose, code
        # Flower's programs call each other by name.
        path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
        self.environment = {**environment(), **ENVIRONMENT, "FLWR_HOME": str(home), "PATH": path}
        self.all = Processes(f"FLWR_HOME={home}", home)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.fleet = self.control = ""

    def __enter__(self) -> "Federation":
        self.all.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.all.stop()

    def start(self, config: RunConfig, memory: Path) -> None:
        """Start a SuperLink, then one SuperNode per client."""
        runtime, self.fleet, self.control, *nodes = free_addresses(3 + config.clients)
        for address in (runtime, self.fleet, self.control, *nodes):
            require_free(address)
        apis = {"serverappio": runtime, "fleet": self.fleet, "control": self.control}
        words = [word for api, at in apis.items() for word in (f"--{api}-api-address", at)]
        self.spawn("superlink", str(PROGRAMS / "flower-superlink"), "--insecure", *words)
        self.await_port("superlink", self.control)
        self.await_port("superlink", self.fleet)
        # These nodes belong to whoever runs the server, so they may say what their code raises.
        self.environment[VARIABLE] = str(memory.parent.absolute() / TRACEBACK)
        for partition, address in enumerate(nodes):
            node = f'partition-id={partition} num-partitions={config.clients} memory="{memory}"'
            program = [sys.executable, "-P", "-m", "fedmirage.node.supernode", "--code", self.code]
            program += ["--insecure", "--superlink", self.fleet, "--node-config", node]
            self.spawn(f"supernode-{partition}", *program, "--clientappio-api-address", address)
        local = {"address": self.control, "insecure": True}
        connection = {"superlink": {"default": "local", "local": local}}
        (self.home / "config.toml").write_text(tomli_w.dumps(connection))

    def spawn(self, name: str, *command: str) -> None:
        """Start a process that writes its output to a log."""
        with (self.logs / f"{name}.log").open("ab") as log:
            output = None if self.verbose else log
            self.processes[name] = self.all.spawn(
                command, self.environment, stdout=output, stderr=output
            )

    def await_port(self, name: str, address: str, timeout: float = 60.0) -> None:
        """Wait until a process listens, or say why it does not."""
        host, _, port = address.rpartition(":")
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self.check_alive(name)
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), timeout=1).close()
                return
            time.sleep(0.1)
        raise FedmirageError(
            f"the {name} does not listen at {address} after {timeout:.0f} s; see"
            f" {self.logs / f'{name}.log'}"
        )

    def check_alive(self, *names: str) -> None:
        """Raise the end of its log if a process has ended too early."""
        for name in names or list(self.processes):
            code = self.processes[name].poll()
            if code is not None:
                log = self.logs / f"{name}.log"
                lines = log.read_text(errors="replace").splitlines() if log.exists() else []
                tail = f"{' / '.join(lines[-4:])} (whole log: {log})"
                raise FedmirageError(f"the {name} ended with code {code}: {tail}")

    def submit(self, config: RunConfig) -> str:
        """Submit the app and its configuration to the SuperLink; return Flower's id of the run."""
        settings = self.home / "run.toml"
        settings.write_text(tomli_w.dumps(config.flat()))
        app = str(app_folder(self.home / "app"))
        answer = self.flwr("run", app, "local", "--run-config", str(settings), "--format", "json")
        if not answer.get("success"):
            reason = answer.get("error-message", answer)
            raise FedmirageError(f"Flower did not start the run: {reason}")
        return str(answer["run-id"])

    def status(self, run_id: str) -> str:
        """Ask the SuperLink how the run is doing, e.g. "running" or "finished:completed"."""
        try:
            answer = self.flwr("list", "local", "--run-id", run_id, "--format", "json")
            runs = answer.get("runs", [])
        except (FedmirageError, subprocess.TimeoutExpired):
            runs = []  # a busy machine is no reason to end a run
        return str(runs[0]["status"]) if runs else "unknown"

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """Call Flower's own command line and return its answer, which is JSON."""
        command = [str(PROGRAMS / "flwr"), *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        for start in (place for place, sign in enumerate(done.stdout) if sign == "{"):
            with contextlib.suppress(json.JSONDecodeError):
                answer: dict[str, Any] = json.loads(done.stdout[start:])
                return answer
        raise FedmirageError(f"flwr {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")

    def wait(self, run_id: str, folder: Path) -> None:
        """Wait until results.jsonl has its summary.

        A run that ends without one has failed, whatever Flower's exit codes say.
        """
        asked = time.monotonic()
        while True:
            time.sleep(0.3)
            self.check_alive("superlink")
            summary = find_summary(folder)
            if summary is not None:
                if summary["status"] != "finished":
                    raise FedmirageError(str(summary.get("reason", "the run failed")))
                return
            if time.monotonic() - asked > STATUS_EVERY:
                asked = time.monotonic()
                status = self.status(run_id)
                if status.startswith(ENDED) and not find_summary(folder):
                    log = self.logs / "superlink.log"
                    raise FedmirageError(
                        f"the run ended as {status!r} without a summary; see {log}"
                    )


def find_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary line of a run that is over, or None."""
    return next(
        (line for line in read_results(folder / FILE)[-1:] if line.get("kind") == "summary"), None
    )


def require_free(address: str) -> None:
    """Refuse an address that is in use; Flower would only say so in a log."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        try:
            probe.bind((host, int(port)))
        except OSError:
            raise FedmirageError(
                f"port {port} of {host} is in use; end the program that listens there, or use"
                " another port"
            ) from None


def free_addresses(count: int) -> list[str]:
    """Find loopback addresses that are not in use."""
    with contextlib.ExitStack() as stack:
        return [f"127.0.0.1:{port}" for port in _bound(stack, count)]


def _bound(stack: contextlib.ExitStack, count: int) -> Iterator[int]:
    for _ in range(count):
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]
