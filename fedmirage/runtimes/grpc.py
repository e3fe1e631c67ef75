"""The grpc runtime: a real SuperLink and real SuperNodes on free loopback ports of this host.

They have a FLWR_HOME of their own.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tomli_w
from rich.console import Console

from fedmirage.client.node.redaction import VARIABLE
from fedmirage.common.errors import TRACEBACK, FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.processes import Processes, environment
from fedmirage.runtimes.sites import Sites, write_pairs
from fedmirage.runtimes.superlink import PROGRAMS, SuperLink
from fedmirage.server.record import checkpoint
from fedmirage.server.record.results import FILE, Results

ENVIRONMENT = {
    # Otherwise every run would begin with a download of torch.
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}


def deploy(
    config: RunConfig, console: Console, verbose: bool = False, code: str = "own", sites: Sites = ()
) -> None:
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
        federation.start(config, folder / "memory", sites)
        text = f"grpc: SuperLink at {federation.fleet}, {config.clients} SuperNodes, logs in {logs}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
        run_id = federation.submit(config)
        summary = federation.wait(run_id, folder)
        if summary["status"] != "finished":
            raise FedmirageError(str(summary.get("reason", "the run failed")))


class Federation(SuperLink):
    """The processes of one federation; whatever happens, none of them outlives the `with` block."""

    start_within = 120.0  # it has no other run

    def __init__(self, home: Path, logs: Path, verbose: bool, code: str = "own") -> None:
        self.home, self.logs, self.verbose, self.code = home, logs, verbose, code
        # Flower's programs call each other by name.
        path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
        variables = {**environment(), **ENVIRONMENT, "FLWR_HOME": str(home), "PATH": path}
        super().__init__("local", variables, str(logs / "superlink.log"))
        self.all = Processes(f"FLWR_HOME={home}", home)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.fleet = self.control = ""

    def __enter__(self) -> "Federation":
        self.all.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.all.stop()

    def start(self, config: RunConfig, memory: Path, sites: Sites = ()) -> None:
        """Start a SuperLink, then one SuperNode per client."""
        runtime, self.fleet, self.control, *nodes = free_addresses(3 + config.clients)
        apis = {"serverappio": runtime, "fleet": self.fleet, "control": self.control}
        words = [word for api, at in apis.items() for word in (f"--{api}-api-address", at)]
        self.spawn("superlink", str(PROGRAMS / "flower-superlink"), "--insecure", *words)
        self.await_port("superlink", self.control)
        self.await_port("superlink", self.fleet)
        self.start_nodes(config, memory, sites, nodes)
        local = {"address": self.control, "insecure": True}
        connection = {"superlink": {"default": "local", "local": local}}
        (self.home / "config.toml").write_text(tomli_w.dumps(connection))

    def start_nodes(
        self, config: RunConfig, memory: Path, sites: Sites, addresses: list[str]
    ) -> None:
        """Start the SuperNodes, each of which hands over its tasks at one of these addresses."""
        # These nodes belong to whoever runs the server, so they may say what their code raises.
        self.environment[VARIABLE] = str(memory.parent.absolute() / TRACEBACK)
        for partition, address in enumerate(addresses):
            node = f'partition-id={partition} num-partitions={config.clients} memory="{memory}"'
            node += grant(config) + (write_pairs(sites[partition]) if sites else "")
            program = [sys.executable, "-P", "-m", "fedmirage.entry", "supernode"]
            program += ["--code", self.code, "--verbose"]  # a log to look for mistakes in
            program += ["--insecure", "--superlink", self.fleet, "--node-config", node]
            self.spawn(f"supernode-{partition}", *program, "--clientappio-api-address", address)

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

    def check(self) -> None:
        """Raise the end of its log if the SuperLink has ended too early."""
        self.check_alive("superlink")


def grant(config: RunConfig) -> str:
    """Let the nodes of this host import and open what whoever starts the run names, and no more."""
    allow = f' allow="{", ".join(config.own_code)}"' if config.own_code else ""
    return allow + (f' weights="{config.initial_weights}"' if config.initial_weights else "")


def free_addresses(count: int) -> list[str]:
    """Find loopback addresses that are not in use."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
