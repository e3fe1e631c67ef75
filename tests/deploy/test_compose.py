"""The compose files as they are written: what every container lacks, and who reaches what."""

import os
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from fedmirage.common.settings.project import ROOT


def services(file: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / file).read_text())["services"]
    return found


PLAIN = services("docker-compose.yml")


@pytest.mark.parametrize("name", PLAIN)
def test_every_container_is_confined(name: str) -> None:
    service = PLAIN[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] == 512
    assert service["mem_limit"] == "${FEDMIRAGE_MEMORY:-4g}"
    assert "ports" not in service


def test_only_submit_shares_the_superlinks_loopback() -> None:
    sharing = [name for name, service in PLAIN.items() if "network_mode" in service]
    assert sharing == ["submit"]
    assert PLAIN["submit"]["network_mode"] == "service:superlink"


@pytest.mark.parametrize("name", [name for name in PLAIN if name.startswith("supernode-")])
def test_a_node_sees_no_private_key_but_its_own(name: str) -> None:
    mounts = services("docker-compose.tls.yml")[name]["volumes"]
    number = name.removeprefix("supernode-")
    folder = "${FEDMIRAGE_CERTIFICATES:-./deploy/certificates}"
    assert mounts == [
        f"{folder}/ca.crt:/certificates/ca.crt:ro",
        f"{folder}/nodes/{number}:/certificates/node:ro",
    ]
    assert PLAIN[name]["command"] == ["supernode", number]


def test_the_overlay_encrypts_every_container() -> None:
    overlay = services("docker-compose.tls.yml")
    assert overlay.keys() == PLAIN.keys()
    assert {service["environment"]["TLS"] for service in overlay.values()} == {"1"}


def test_every_container_that_trains_has_one_gpu_of_its_own_choice() -> None:
    overlay = services("docker-compose.gpu.yml")
    assert overlay.keys() == PLAIN.keys() - {"submit"}
    for name, service in overlay.items():
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        number = "SERVER" if name == "superlink" else name.removeprefix("supernode-")
        assert device["device_ids"] == [f"${{GPU_{number}:-0}}"]


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="docker-compose is not installed")
def test_compose_understands_all_files_together() -> None:
    files = ("docker-compose.yml", "docker-compose.tls.yml", "docker-compose.gpu.yml")
    command = ["docker-compose", *(part for file in files for part in ("-f", file)), "config"]
    environment = {**os.environ, "GPU_1": "1", "COMPOSE_PROFILES": "clients-10"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)["services"]
    asked = {
        name: service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for name, service in found.items()
        if name != "submit"
    }
    assert asked == {name: ["1" if name == "supernode-1" else "0"] for name in asked}
