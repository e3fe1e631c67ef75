"""The commands of docs/deploy.md, with every host as a folder of this machine."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from fedmirage.common.settings.project import ROOT
from fedmirage.runtimes.grpc import free_addresses
from fedmirage.runtimes.processes import Processes, environment
from tests.support.commands import command, wait_until
from tests.support.files import pictures, png

PAGE = (ROOT / "docs" / "deploy.md").read_text().partition("## What runs underneath")[0]
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"^```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.replace("\\\n", " ").splitlines()
]
SITES = ("site-a", "site-b", "site-c")
PATIENCE = 240.0  # seconds; an idle machine needs twenty


class Page:
    """The page's commands, each on the host where it belongs, which is a folder here."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder, self.processes = folder, processes
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.runtime, self.fleet, self.control, *self.tasks = free_addresses(3 + len(SITES))
        for number, host in enumerate(("server", *SITES)):
            self.write_pictures(
                folder / host / ("test" if host == "server" else "pictures"), number
            )
        self.variables = {**environment(), "FEDMIRAGE_CACHE": str(folder / "cache")}

    def write_pictures(self, folder: Path, seed: int) -> None:
        for shade, name in enumerate(("benign", "malignant")):
            (folder / name).mkdir(parents=True)
            for number, pixels in enumerate(pictures(6, 12, 12, seed=seed)):
                (folder / name / f"{number}.png").write_bytes(png(pixels // 2 + 120 * shade))

    def words(self, name: str, site: str = "site-a") -> list[str]:
        """What the page says of a command, for a site, and in the folders of this test."""
        (found,) = (words[1:] for words in COMMANDS if words[:2] == ["fedmirage", name])
        number = SITES.index(site)
        changes = {
            "fl.example.org:9092": f"localhost:{self.fleet.rpartition(':')[2]}",
            "fl.example.org": "localhost",
            "/srv/pictures": str(self.folder / site / "pictures"),
            "/srv/test": str(self.folder / "server" / "test"),
            "partition-id=0": f"partition-id={number}",
        }
        if name in ("key", "supernode"):
            changes["site-a"] = site
        for old, new in changes.items():
            found = [word.replace(old, new) for word in found]
        return found

    def run(self, host: str, words: list[str]) -> str:
        done = self.attempt(host, words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, host: str, words: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command(*words),
            cwd=self.folder / host,
            env={**self.variables, "COLUMNS": "1000"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def start(self, host: str, words: list[str], name: str = "") -> "subprocess.Popen[bytes]":
        """Start a program of a host, which has the host's name unless it is given one."""
        own = {"FLWR_HOME": str(self.folder / host / "flwr"), "COLUMNS": "1000"}
        with (self.folder / f"{name or host}.log").open("wb") as log:
            self.running[name or host] = self.processes.spawn(
                words, {**self.variables, **own}, stdout=log, stderr=log, cwd=self.folder / host
            )
        return self.running[name or host]

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def start_superlink(self) -> None:
        addresses = ["--fleet-api-address", self.fleet, "--control-api-address", self.control]
        addresses += ["--serverappio-api-address", self.runtime]
        self.start("server", command(*self.words("superlink"), *addresses))
        wait_until(lambda: "Starting Fleet API" in self.said("server"), PATIENCE, "a SuperLink")

    def admit(self) -> str:
        for site in SITES:
            self.run(site, self.words("key", site))
            shutil.copy(self.folder / site / f"{site}.pub", self.folder / "server")
            assert not (self.folder / "server" / site).exists()  # the private half stays
        certificate = self.folder / "server" / "federation" / "certificates" / "ca.crt"
        for site in SITES:
            shutil.copy(certificate, self.folder / site)
        return self.run("server", self.words("admit"))

    def supernode_words(self, site: str, *more: str) -> list[str]:
        tasks = ["--clientappio-api-address", self.tasks[SITES.index(site)]]
        return [*self.words("supernode", site), *tasks, *more]

    def start_nodes(self) -> None:
        """Start the nodes of all sites."""
        for site in SITES:
            self.start(site, command(*self.supernode_words(site)))
        for site in SITES:
            self.await_node(site)

    def submit_words(self, rounds: int, out: str = "first") -> list[str]:
        """Return what the page says of a submission, for a short run."""
        words = [*self.words("submit"), "--local-steps", "2", "--batch-size", "4"]
        words[words.index("--rounds") + 1] = str(rounds)
        words[words.index("--out") + 1] = out
        return words

    def await_node(self, site: str) -> None:
        wait_until(lambda: "connected to the SuperLink" in self.said(site), PATIENCE, site)

    def is_back(self, site: str) -> bool:
        return "connected again to the SuperLink" in self.said(site)


@contextmanager
def open_page(folder: Path) -> Iterator[Page]:
    """Make the hosts, and end their processes afterwards."""
    with Processes(f"FEDMIRAGE_TEST={uuid4().hex}") as processes:
        yield Page(folder, processes)
