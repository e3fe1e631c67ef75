"""The compose files as they are written: what every container lacks, and who reaches what."""

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
