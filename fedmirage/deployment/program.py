"""Starts Flower's SuperLink with what a federation of several owners needs.

That is a database, TLS, registered nodes only, and an interface for orders that only this machine
reaches. It is Flower's own program, in this process.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedmirage.common.errors import ConfigurationError, FedmirageError, collect, refuse
from fedmirage.deployment.certificates import (
    AUTHORITY,
    SERVER,
    SERVER_KEY,
    make_certificates,
    own_names,
    read_certificate,
)
from fedmirage.deployment.link import Home
from fedmirage.node.checks import check_address
from fedmirage.node.encryption import find_expired
from fedmirage.runtimes.grpc import ENVIRONMENT
from fedmirage.runtimes.superlink import PROGRAMS
from fedmirage.server.messages.node_ids import VARIABLE
from fedmirage.show.words import write_command


@dataclass(frozen=True)
class Program:
    """How a SuperLink is started."""

    home: Home
    certificates: Path
    hosts: Sequence[str] = ()  # what nodes call this machine
    insecure: bool = False
    fleet: str = "0.0.0.0:9092"  # where nodes connect
    control: str = "127.0.0.1:9093"  # where runs are submitted and keys registered
    runtime: str = "127.0.0.1:9091"  # where its own processes meet

    @property
    def for_flower(self) -> list[str]:
        """The arguments of Flower's program."""
        words = ["--fleet-api-address", self.fleet, "--control-api-address", self.control]
        words += ["--serverappio-api-address", self.runtime]
        if self.insecure:
            return [*words, "--insecure"]
        words += ["--database", str(self.home.database)]
        files = {"ca-cert": AUTHORITY, "cert": SERVER, "key": SERVER_KEY}
        for option, name in files.items():
            words += [f"--ssl-{option}file", str(self.certificates / name)]
        return [*words, "--enable-supernode-auth"]

    @property
    def variables(self) -> dict[str, str]:
        """What it finds in its environment; who is admitted counts only where keys are proved."""
        bound = {} if self.insecure else {VARIABLE: str(self.home.nodes)}
        return {**ENVIRONMENT, "FLWR_HOME": str(self.home.flower), **bound}

    def prepare(self) -> list[str]:
        """Check everything, make what is missing, and say what was made."""
        problems: list[str] = []
        options = {"fleet": self.fleet, "control": self.control, "serverappio": self.runtime}
        for name, address in options.items():
            problems += check_address(address, f"--{name}-api-address")
        if self.insecure and (self.certificates / SERVER).exists():
            problems.append(
                f"--insecure: {self.home.folder} has certificates, and sites that it admits by"
                " their keys; leave --insecure out, or name another folder"
            )
        refuse(problems)
        said = [] if self.insecure else self.make_certificates()
        self.home.folder.mkdir(parents=True, exist_ok=True)
        root = None if self.insecure else (self.certificates / AUTHORITY).absolute()
        self.home.write_connection(self.control, root)
        if not self.insecure:
            self.home.nodes.touch(mode=0o644)  # without it, a run could not tell who is admitted
        return said

    def make_certificates(self) -> list[str]:
        """Make the certificates that are missing, and refuse those that are not valid today."""
        new = not (self.certificates / SERVER).exists()
        said = make_certificates(self.certificates, self.hosts or (own_names() if new else ()))
        problems: list[str] = []
        for name, mend in (
            (SERVER, f"delete it and {SERVER_KEY}, and start the SuperLink again with --host NAME"),
            (AUTHORITY, "delete the folder, start the SuperLink again, and give it to every site"),
        ):
            with collect(problems):
                if expired := find_expired(read_certificate(self.certificates / name)):
                    raise ConfigurationError(f"{self.certificates / name} {expired}; {mend}")
        refuse(problems)
        return said


def start(program: Program) -> None:
    """Become Flower's SuperLink, after printing the command that does the same."""
    flower = PROGRAMS / "flower-superlink"
    if not flower.exists():
        raise FedmirageError(f"{flower} does not exist; install Flower beside fedmirage")
    command = write_command(program.variables, ["flower-superlink", *program.for_flower])
    print(f"starts: {command}", flush=True)
    path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])  # it calls others by name
    variables = {**os.environ, **program.variables, "PATH": path}
    os.execve(flower, [str(flower), *program.for_flower], variables)
