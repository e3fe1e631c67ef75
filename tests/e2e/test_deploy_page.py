"""docs/deploy.md, executed as it is written, with three sites on one machine."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from fedmirage.common.settings.project import ROOT
from fedmirage.runtimes.grpc import free_addresses
from fedmirage.runtimes.processes import Processes, environment
from fedmirage.server.record.results import read_results
from tests.support.commands import command, wait_until
from tests.support.files import pictures, png

pytestmark = pytest.mark.slow
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

    def start(self, host: str, words: list[str]) -> "subprocess.Popen[bytes]":
        own = {"FLWR_HOME": str(self.folder / host / "flwr")}
        with (self.folder / host / "log").open("wb") as log:
            return self.processes.spawn(
                words, {**self.variables, **own}, stdout=log, stderr=log, cwd=self.folder / host
            )

    def said(self, host: str) -> str:
        return (self.folder / host / "log").read_text()

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

    def await_node(self, site: str) -> None:
        wait_until(lambda: "connected to the SuperLink" in self.said(site), PATIENCE, site)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with Processes(f"FEDMIRAGE_TEST={uuid4().hex}") as processes:
        yield Page(tmp_path, processes)


def test_the_page_has_eight_commands() -> None:
    first = ["key", "superlink", "admit", "supernode", "submit", "status", None, "predict"]
    found = [words[1] if words[0] == "fedmirage" else None for words in COMMANDS]
    assert found == first


def test_from_folders_to_predictions(page: Page) -> None:
    page.start_superlink()
    assert "site-c is admitted, partition 2" in page.admit()
    assert "this node is ready" in page.run("site-a", page.supernode_words("site-a", "--check"))
    for site in SITES:
        page.start(site, command(*page.supernode_words(site)))
    for site in SITES:
        page.await_node(site)

    submitted = page.words("submit")
    submitted[submitted.index("--rounds") + 1] = "2"
    said = page.run("server", [*submitted, "--local-steps", "2", "--batch-size", "4"])
    assert "round 2/2: accuracy" in said
    assert "flwr run . here --run-config" in said
    lines = read_results(page.folder / "server" / "first" / "results.jsonl")
    rounds = [line for line in lines if line["kind"] == "round"]
    assert rounds[0]["sites"] == {"0": "site-a", "1": "site-b", "2": "site-c"}
    assert "sites" not in rounds[1]
    assert [len(line["clients"]) for line in rounds] == [3, 3]

    told = page.run("server", page.words("status"))
    assert re.findall(r"(site-.) +(\d) +connected since 20", told) == [
        ("site-a", "0"),
        ("site-b", "1"),
        ("site-c", "2"),
    ]

    def is_finished() -> bool:  # the SuperLink hears of the end after the results are written
        told = page.run("server", page.words("status"))
        return re.search(r"finished:completed .* 2 of 2 ", told) is not None

    wait_until(is_finished, PATIENCE, "the end of the run")
    assert "site-b: its reply counted in round 2" in page.run("server", ["status", "first"])
    unknown = page.attempt("server", [*page.words("status"), "--run", "123"])
    assert unknown.returncode == 1
    assert "--run 123: the SuperLink knows no such run, but " in unknown.stderr

    (copy,) = re.findall(r"to copy them: (scp -r \S+:.*)", said)
    where = Path(shlex.split(copy)[2].partition(":")[2])
    assert where == page.folder / "server" / "first"
    here = page.folder / "site-a"
    shutil.copytree(where, here / "first")  # what scp does
    (here / "pictures").rename(here / "scans")
    answers = page.run("site-a", page.words("predict"))
    assert len(answers.strip().splitlines()) == 13

    impostor(page)


def impostor(page: Page) -> None:
    """Node b gets a new key, and comes back under the name of a."""
    assert "site-b is revoked" in page.run("server", ["admit", "--revoke", "site-b"])
    wait_until(lambda: "has revoked this node's key" in page.said("site-b"), PATIENCE, "site-b")
    (page.folder / "site-b" / "site-b").unlink()
    (page.folder / "site-b" / "site-b.pub").unlink()
    (page.folder / "server" / "site-b.pub").unlink()
    page.run("site-b", page.words("key", "site-b"))
    shutil.copy(page.folder / "site-b" / "site-b.pub", page.folder / "server")
    assert "site-b is admitted, partition 1" in page.run("server", ["admit", "site-b.pub"])
    words = [word.replace("site-b", "site-a") for word in page.words("supernode", "site-b")]
    words[words.index("--auth-supernode-private-key") + 1] = "site-b"
    words = [
        word.replace(str(page.folder / "site-a"), str(page.folder / "site-b")) for word in words
    ]
    page.start("site-b", command(*words, "--clientappio-api-address", page.tasks[1]))
    page.await_node("site-b")
    submitted = page.words("submit")
    submitted[submitted.index("--out") + 1] = "second"
    # The node of site-a lost its pictures, too: they are scans now.
    done = page.attempt("server", [*submitted, "--node-timeout", "60"])
    assert done.returncode == 1
    reason = read_results(page.folder / "server" / "second" / "results.jsonl")[-1]["reason"]
    assert "partition 0, 1 (site-a, site-b)" in reason
    assert "site-b was refused: its key is bound to the site 'site-b'" in reason
    assert "site-a was refused: it failed: its data cannot be used" in reason
