"""deploy/role without containers: which program it would start, with which arguments."""

import os
import subprocess
from pathlib import Path

import pytest

from fedmirage.common.settings.project import ROOT

PROGRAMS = ("flower-superlink", "flower-supernode", "fedmirage")


class Container:
    """Folders in place of a container's, and programs that only write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("state", "runs", "certificates", "bin"):
            (folder / name).mkdir()
        for name in PROGRAMS:
            program = folder / "bin" / name
            program.write_text(f'#!/bin/sh\necho {name} "$@" > {folder}/called\n')
            program.chmod(0o755)
        # A SuperLink that may be running on this machine is none of the tests' business.
        (folder / "bin" / "python3").symlink_to("/bin/false")

    def play(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        places = {name.upper(): str(self.folder / name) for name in ("state", "runs")}
        environment = {
            **places,
            "CERTIFICATES": str(self.folder / "certificates"),
            "FLWR_HOME": str(self.folder / "state" / "flwr"),
            "FEDMIRAGE_CACHE": str(self.folder / "state" / "cache"),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            **variables,
        }
        role = [str(ROOT / "deploy" / "role"), *arguments]
        return subprocess.run(role, env=environment, capture_output=True, text=True, check=False)

    @property
    def called(self) -> str:
        file = self.folder / "called"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


@pytest.mark.parametrize("value", ["1", "yes", "true", "on"])
@pytest.mark.parametrize("role", [("superlink",), ("supernode", "0")])
def test_whoever_asks_for_encryption_gets_it(
    container: Container, role: tuple[str, ...], value: str
) -> None:
    container.play(*role, TLS=value)
    assert container.called
    assert "--insecure" not in container.called
    certificates = container.folder / "certificates"
    wanted = (
        f"fedmirage superlink {container.folder / 'state'} --certificates {certificates}\n"
        if role == ("superlink",)
        else f"--root-certificates {certificates / 'ca.crt'}"
    )
    assert wanted in container.called


@pytest.mark.parametrize("value", ["YES", "2", "tls", " ", "yes please"])
@pytest.mark.parametrize("role", [("superlink",), ("supernode", "0"), ("submit",), ("admit",)])
def test_an_odd_value_starts_nothing(
    container: Container, role: tuple[str, ...], value: str
) -> None:
    done = container.play(*role, TLS=value)
    assert done.returncode == 1
    assert f"TLS is '{value}', which is neither 1 nor 0" in done.stderr
    assert container.called == ""


@pytest.mark.parametrize("value", ["", "0", "off"])
def test_without_encryption_only_if_nobody_asks_for_it(container: Container, value: str) -> None:
    container.play("superlink", TLS=value)
    assert "--insecure" in container.called


@pytest.mark.parametrize(("role", "key"), [("superlink", "server.key"), ("supernode", "node")])
def test_keys_without_tls_are_a_mistake(container: Container, role: str, key: str) -> None:
    (container.folder / "certificates" / key).touch()
    done = container.play(role, "0")
    assert done.returncode == 1
    assert "but TLS is not set" in done.stderr
    assert container.called == ""


def test_the_control_interface_is_left_on_loopback(container: Container) -> None:
    """That is the default of `fedmirage superlink`."""
    container.play("superlink")
    assert "-api-address" not in container.called


def test_the_folder_of_keys_is_the_list_of_sites(container: Container) -> None:
    public = container.folder / "certificates" / "public"
    public.mkdir()
    admit = f"fedmirage admit --superlink {container.folder / 'state'} --only"
    container.play("admit", TLS="1")
    assert container.called == f"{admit}\n"
    for name in ("0.pub", "1.pub"):
        (public / name).touch()
    container.play("admit", TLS="1")
    assert container.called == f"{admit} {public / '0.pub'} {public / '1.pub'}\n"


def test_a_node_runs_its_own_code_unless_told_otherwise(container: Container) -> None:
    container.play("supernode", "0")
    usual = "fedmirage supernode --code own --tasks forked --waiting adaptive "
    assert container.called.startswith(usual)
    container.play("supernode", "0", CODE="any", TASKS="fresh", WAITING="flower")
    other = "fedmirage supernode --code any --tasks fresh --waiting flower "
    assert container.called.startswith(other)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("CODE", "neither own nor any"),
        ("TASKS", "neither forked nor fresh"),
        ("WAITING", "neither adaptive nor flower"),
    ],
)
def test_an_unknown_way_starts_nothing(container: Container, name: str, sentence: str) -> None:
    assert f"{name} is 'theirs', which is {sentence}" in (
        container.play("supernode", "0", **{name: "theirs"}).stderr
    )
    assert container.called == ""


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("fl.example.org", "fl.example.org:9092"),
        ("192.0.2.7", "192.0.2.7:9092"),
        ("2001:db8::7", "[2001:db8::7]:9092"),
        ("[2001:db8::7]", "[2001:db8::7]:9092"),
    ],
)
def test_addresses_of_every_kind(container: Container, host: str, written: str) -> None:
    container.play("supernode", "0", SUPERLINK=host)
    assert f"--superlink {written} " in container.called


def test_a_node_is_configured_by_its_own_variables(container: Container) -> None:
    container.play("supernode", "1", CLIENTS="4", OWN_DATA="/own", NODE_CONFIG='require="secagg"')
    memory = container.folder / "state" / "memory"
    node = f'partition-id=1 num-partitions=4 memory="{memory}" data="/own" require="secagg"'
    assert f"--node-config {node} " in container.called
