"""docs/deploy.md, executed as it is written, with three sites on one machine."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedmirage.server.record.results import read_results
from tests.support.commands import command, wait_until
from tests.support.page import COMMANDS, PATIENCE, Page, open_page

pytestmark = pytest.mark.slow


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with open_page(tmp_path) as opened:
        yield opened


def test_the_page_has_eight_commands() -> None:
    first = ["key", "superlink", "admit", "supernode", "submit", "status", None, "predict"]
    found = [words[1] if words[0] == "fedmirage" else None for words in COMMANDS]
    assert found == first


def test_from_folders_to_predictions(page: Page) -> None:
    page.start_superlink()
    assert "site-c is admitted, partition 2" in page.admit()
    assert "this node is ready" in page.run("site-a", page.supernode_words("site-a", "--check"))
    page.start_nodes()
    said = page.run("server", page.submit_words(rounds=2))
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
