"""A Ray cluster of several nodes: the same bits as on one host, whatever dies, joins or leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedmirage.server.record.results import read_results
from tests.support.clusters import Cluster, start_cluster
from tests.support.commands import SETTINGS, TINY, command, processes, wait_until
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, lines, pictures, without_times

pytestmark = pytest.mark.slow

METHODS = "scaffold, moon(mu=1.0), feddyn, fedcog(start=1, samples=10, steps=3)"
MORE: dict[str, Any] = {"clients": 4, "rounds": 4, "methods": METHODS, "save_images": True}
FLAGS = ("--clients", "4", "--rounds", "4", "--methods", METHODS, "--save-images")
FLAGS += ("--node-timeout", "600")
LONG = ("--methods", "scaffold", "--clients", "4", "--participation", "1.0", "--rounds", "40")
LONG += ("--local-steps", "40", "--lr", "0.01", "--node-timeout", "300")


def begin(cluster: Cluster, out: Path, *flags: str, **variables: str) -> "subprocess.Popen[str]":
    flags = ("run", *TINY, *flags, "--ray-address", cluster.address, "--out", str(out))
    known = {**cluster.environment, **variables}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*flags), stdout=pipe, stderr=subprocess.STDOUT, text=True, env=known
    )


def finish(process: "subprocess.Popen[str]", code: int = 0) -> str:
    said, _ = process.communicate(timeout=900)
    assert process.returncode == code, said
    return said


def rounds(folder: Path) -> int:
    return len(lines(folder)) if (folder / "results.jsonl").exists() else 0


def await_rounds(folder: Path, number: int) -> None:
    wait_until(lambda: rounds(folder) >= number, 600, f"round {number} of {folder}")


def require_empty(cluster: Cluster) -> None:
    """Nothing of the run is left on the cluster, which has all of its room again."""
    wait_until(lambda: not cluster.ask()["actors"], 60, "the actors end")


@pytest.mark.parametrize("cpus", [(1, 2), (1, 1, 1, 1)])
def test_the_same_bits_as_on_one_host(tmp_path: Path, cpus: tuple[int, ...]) -> None:
    """Models, memories and pictures; and two runs at a time leave each other alone."""
    run_in_process(tmp_path / "plain", **{**SETTINGS, **MORE})
    with start_cluster(*cpus) as cluster:
        both = [begin(cluster, tmp_path / name, *FLAGS, "--actors", "1") for name in ("one", "two")]
        said = [finish(process) for process in both]
        require_empty(cluster)
        assert not cluster.folders
        for name, text in zip(("one", "two"), said, strict=True):
            assert f"{len(cpus)} hosts, 1 client at a time, 1 CPU each" in text
            assert_same_bits(tmp_path / "plain", tmp_path / name)
            assert without_times(tmp_path / "plain") == without_times(tmp_path / name)
            assert pictures(tmp_path / "plain") == pictures(tmp_path / name)
    assert processes(str(tmp_path)) == []


def test_a_dead_host_costs_its_clients_the_round_and_a_new_one_is_used(tmp_path: Path) -> None:
    with start_cluster(1, 1) as cluster:
        victim = cluster.nodes[-1]
        process = begin(cluster, tmp_path / "run", *LONG)
        await_rounds(tmp_path / "run", 3)
        cluster.kill(victim)
        seen = rounds(tmp_path / "run")
        await_rounds(tmp_path / "run", seen + 4)
        cluster.add(2)
        known = cluster.folders
        wait_until(lambda: len(cluster.folders - known) >= 1, 300, "an actor starts there")
        said = finish(process)
        require_empty(cluster)
    counts = [len(line["clients"]) for line in lines(tmp_path / "run")]
    assert len(counts) == 40, said
    assert 1 <= sum(count < 4 for count in counts) <= 2
    assert min(counts) >= 2


def test_killed_processes_leave_nothing_on_the_cluster(tmp_path: Path) -> None:
    """An actor costs its client the round; the run's own process ends the run, which goes on."""
    with start_cluster(2) as cluster:
        process = begin(cluster, tmp_path / "run", *LONG)
        await_rounds(tmp_path / "run", 2)
        actors = [one for one in processes("ray::ClusterActor") if is_of(one, cluster)]
        os.kill(actors[0], signal.SIGKILL)
        await_rounds(tmp_path / "run", rounds(tmp_path / "run") + 3)
        (driver,) = [one for one in processes("fedmirage.runtimes.child") if is_of(one, cluster)]
        os.kill(driver, signal.SIGKILL)
        assert "the process of the run was killed" in finish(process, code=1)
        require_empty(cluster)
        wait_until(lambda: not cluster.folders, 30, "the folders of actors are removed")
        resumed = ["run", "--resume", str(tmp_path / "run"), "--ray-address", cluster.address]
        again = subprocess.run(
            command(*resumed),
            env=cluster.environment,
            capture_output=True,
            timeout=900,
            check=False,
        )
        assert again.returncode == 0, again.stdout
    counts = [len(line["clients"]) for line in lines(tmp_path / "run")]
    assert len(counts) == 40
    assert sum(count < 4 for count in counts) == 1


def is_of(process: int, cluster: Cluster) -> bool:
    """Whether a process belongs to this cluster, and not to somebody else's."""
    return cluster.token.encode() in Path(f"/proc/{process}/environ").read_bytes()


def test_a_comparison_is_that_of_one_host_and_survives_a_dead_host(tmp_path: Path) -> None:
    flags = ["compare", *TINY, "--clients", "4", "--rounds", "12", "--local-steps", "20"]
    flags += ["--methods", "scaffold", "--methods", "fedcog(start=9, samples=10, steps=3)"]
    flags += ["--seeds", "0..1", "--no-report"]
    with start_cluster(1, 1) as cluster:
        there = [*flags, "--out", str(tmp_path / "there"), "--ray-address", cluster.address]
        both = {"env": cluster.environment, "text": True}
        process = subprocess.Popen(command(*there), stdout=subprocess.PIPE, **both)
        wait_until(lambda: any(tmp_path.glob("there/*/checkpoint.safetensors")), 600, "a round")
        cluster.kill(cluster.nodes[-1])
        said = finish(process)
        assert "2 seeds, 2 runs at a time on the Ray cluster" in said
        require_empty(cluster)
        began = time.monotonic()
        again = subprocess.run(
            command(*there), capture_output=True, timeout=300, check=False, **both
        )
        assert "8 of 8 runs were finished before" in again.stdout
        assert time.monotonic() - began < 120
    here = [*flags, "--out", str(tmp_path / "here")]
    subprocess.run(command(*here), check=True, timeout=900, capture_output=True)
    folders = sorted(path.parent for path in tmp_path.glob("here/*/model.safetensors"))
    assert len(folders) == 8
    for folder in folders:
        assert_same_bits(folder, tmp_path / "there" / folder.name)
        told = read_results(tmp_path / "there" / folder.name / "results.jsonl")
        assert told[0]["out"] == str(tmp_path / "there" / folder.name)
        assert told[-1]["status"] == "finished"


def test_what_is_wrong_with_a_cluster_is_a_sentence(tmp_path: Path) -> None:
    with start_cluster(1, gpus=1) as cluster:
        asked = [
            (
                ("--threads", "3"),
                {},
                "no host of the cluster has room for one actor, which takes 3",
            ),
            ((), {"RAY_AUTH_TOKEN": "0" * 64}, "the cluster refuses this command's token"),
            ((), {"RAY_AUTH_MODE": "", "RAY_AUTH_TOKEN": ""}, "refuses this command's token"),
        ]
        for flags, variables, sentence in asked:
            began = time.monotonic()
            said = finish(begin(cluster, tmp_path / "run", *flags, **variables), code=1)
            assert sentence in said
            assert "Traceback" not in said
            assert time.monotonic() - began < 60
        said = finish(begin(cluster, tmp_path / "gpu", "--actors", "2", "--device", "auto"))
        assert "1 client at a time, 1 CPU and 0.5 of a GPU each" in said
        cluster.add(1, variables={"FEDMIRAGE_DATA": str(tmp_path / "none"), "HOME": str(tmp_path)})
        flags = ("--dataset", "cifar100", "--clients", "4")
        said = finish(begin(cluster, tmp_path / "run", *flags), code=1)
        assert said.count("cannot use the run's data or code: dataset: cifar100 was not found") == 2
        require_empty(cluster)


COPIES = """
import logging, ray, time
from ray.experimental import get_object_locations
from fedmirage.runtimes.actors import Store
from fedmirage.runtimes.parcels import Load

class Reader:
    def read(self, references):
        return len(ray.get(references[0])[0])

ray.init(address="{address}", logging_level=logging.CRITICAL, log_to_driver=False)
load, store = Load([]), Store()
load.content = [bytes(20_000_000)]
references = store.put(load)
assert store.put(load) is references
kind = ray.remote(Reader).options(num_cpus=1, scheduling_strategy="SPREAD")
readers = [kind.remote() for _ in range(4)]
for _ in range(2):
    ray.get([reader.read.remote(references) for reader in readers])
places = get_object_locations(references)[references[0]]
print(len(places["node_ids"]), places["object_size"] // 1_000_000)
"""


def test_weights_are_once_on_every_host(tmp_path: Path) -> None:
    with start_cluster(2, 2) as cluster:
        script = COPIES.format(address=cluster.address)
        known = {**cluster.environment, "PYTHONPATH": os.getcwd()}
        done = subprocess.run(
            [sys.executable, "-c", script], env=known, capture_output=True, text=True, check=False
        )
        assert done.stdout.split() == ["2", "20"], done.stderr
