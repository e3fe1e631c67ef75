"""Methods that somebody else wrote: how they are found, and what is refused in a sentence."""

import io
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from rich.console import Console

from fedmirage.client.node.settings import read_settings
from fedmirage.client.objective import Objective
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.methods import METHODS, half
from fedmirage.common.own_code import find
from fedmirage.common.own_methods import SIDES, find_missing_halves, list_needs
from fedmirage.common.settings.config import configure
from fedmirage.comparison.rows import placebo_of
from fedmirage.records.lines import config_of
from fedmirage.server.strategy.wrapper import StrategyWrapper
from fedmirage.settings.layers import locate
from fedmirage.show.catalogue import show_methods
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE
from tests.support.plugins import install_skeleton, register, write_method
from tests.support.runs import assert_same_bits, lines


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which Python finds packages, for one test."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def problems_of(methods: str, **more: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        configure({**more, "methods": methods})
    return raised.value.problems


# Installed packages


def test_a_package_is_listed_without_being_imported(installed: Path) -> None:
    install_skeleton("listed-one", installed)
    assert "listed-one" in list(METHODS)
    assert "listed-one" not in METHODS.ours
    assert "fedmirage_listed_one" not in sys.modules
    assert METHODS["listed-one"].name == "listed-one"


def test_halves_are_found_beside_the_declaration(installed: Path) -> None:
    install_skeleton("beside-one", installed)
    (method,) = configure({"methods": "beside-one(strength=0.1)"}).method_list
    client, server = half("client", method, Objective), half("server", method, StrategyWrapper)
    assert client is not None
    assert server is not None
    names = [client.__module__, server.__module__]
    assert names == ["fedmirage_beside_one.client", "fedmirage_beside_one.server"]
    assert find_missing_halves((method,)) == []


def test_a_name_that_is_taken(installed: Path) -> None:
    """Every other run goes on as before."""
    register(installed, "taker", {"fedprox": "taker:Pull", "pull-two": "taker:Pull"})
    register(installed, "other", {"pull-two": "other:Pull"})
    (told,) = problems_of("fedprox")
    assert told == (
        "methods: 'fedprox' is a method of fedmirage and of the package taker 0.1.0; uninstall that"
        " package, or give its method another name"
    )
    (told,) = problems_of("pull-two")
    assert "a method of the packages" in told
    assert "uninstall all but one" in told
    assert configure({"methods": "moon"}).method_list


def test_all_that_is_wrong_with_packages_is_said_at_once(installed: Path) -> None:
    (installed / "broken_one.py").write_text("1 / 0")
    write_method(installed / "right_one.py", "right-one")
    entries = {
        "broken-one": "broken_one:Pull",
        "gone-one": "nowhere_at_all:Pull",
        "wrong-name": "right_one:Pull",
        "no-class": "right_one:Objective",
        "no-attribute": "right_one:Push",
    }
    register(installed, "several", entries)
    told = problems_of(", ".join(entries), lr=-1)
    for sentence in (
        "lr=-1: ",
        "methods: broken_one cannot be imported (ZeroDivisionError: division by zero)",
        "methods: nowhere_at_all cannot be imported (ModuleNotFoundError",
        "methods: right_one:Pull is registered as 'wrong-name', but its name is 'right-one'",
        "methods: right_one:Objective is no declaration of a method",
        "methods: right_one has nothing called 'Push'; there is",
    ):
        assert any(one.startswith(sentence) for one in told), (sentence, told)
    assert len(told) == 6


def test_the_list_says_what_is_wrong_with_a_package(installed: Path) -> None:
    (installed / "broken_two.py").write_text("1 / 0")
    register(installed, "broken", {"broken-two": "broken_two:Pull"})
    with Console(width=200, record=True, file=io.StringIO()) as console:
        show_methods(console)
    assert "Cannot be used: methods: broken_two cannot be imported" in console.export_text()


# Files


def test_a_file_runs_with_parameters_and_its_degenerate_case_is_fedavg(tmp_path: Path) -> None:
    file = write_method(tmp_path / "pull.py")
    run_in_process(tmp_path / "pull", **BASE, methods=f"{file}(mu=0.1), fedprox(mu=0.1)")
    assert lines(tmp_path / "pull")[-1]["train"]["pull"] > 0
    (begun,) = lines(tmp_path / "pull", "config")
    assert list(begun["resolved"]["sources"]) == [str(file)]
    run_in_process(tmp_path / "nothing", **BASE, methods=f"{file}(mu=0)")
    run_in_process(tmp_path / "fedavg", **BASE)
    assert_same_bits(tmp_path / "nothing", tmp_path / "fedavg")


def test_a_file_with_two_methods_needs_a_choice(tmp_path: Path) -> None:
    """A half says which of them it belongs to."""
    file = write_method(tmp_path / "two.py")
    write_method(file, "push", "Push")
    (told,) = problems_of(str(file))
    assert told == f'methods: {file} declares 2 methods; write "{file}:Pull" or "{file}:Push"'
    (method,) = configure({"methods": f"{file}:Push(mu=1)"}).method_list
    found = half("client", method, Objective)
    assert found is not None
    assert found.__name__ == "PushClient"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("VALUE = 1", "declares no method; it needs a subclass of fedmirage.common.method.Method"),
        ("1 / 0", r"cannot be imported \(ZeroDivisionError"),
        ("import nowhere_at_all", r"cannot be imported \(ModuleNotFoundError"),
        (
            "from typing import ClassVar\nfrom fedmirage.common.method import Method\n"
            "class Bare(Method):\n    name: ClassVar[str] = 'bare'",
            "does not say its title; write title = ...",
        ),
    ],
)
def test_a_file_that_is_no_method(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "odd.py"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=sentence):
        configure({"methods": str(file)})


def test_files_that_are_not_there_or_take_a_name(tmp_path: Path) -> None:
    taken = write_method(tmp_path / "taken.py", "fedprox", "FedProxAgain")
    odd = write_method(tmp_path / "odd_name.py", "Odd Name")
    told = "\n".join(problems_of(f"{taken}, {odd}, {tmp_path}/nowhere.py"))
    assert "declares 'fedprox', which is a method of fedmirage; give yours another name" in told
    assert "is called 'Odd Name'; a name has small letters, digits and hyphens" in told
    assert f"methods: there is no file '{tmp_path}/nowhere.py'; check the path" in told


def test_a_missing_half_is_named(tmp_path: Path) -> None:
    file = write_method(tmp_path / "halfless.py", half=False)
    (told,) = find_missing_halves(configure({"methods": str(file)}).method_list)
    assert told == (
        "methods: pull declares metrics, but has no client half; write a subclass of Objective in"
        f" {file}, or in client.py beside it"
    )


@pytest.mark.parametrize("name", METHODS.ours)
def test_methods_of_fedmirage_have_the_halves_that_they_need(name: str) -> None:
    method = METHODS[name].model_construct()
    for side, why in list_needs(type(method)).items():
        assert not why or half(side, method, find(SIDES[side], "methods")) is not None


def test_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    line = "pull.py(a='x, pull.py'), ./two.py:Push, lg-fedavg"
    found = f"{tmp_path}/pull.py(a='x, pull.py'), {tmp_path}/two.py:Push, lg-fedavg"
    assert locate(line) == locate(found) == found
    assert locate("scaffold,moon") == "scaffold,moon"


def test_the_placebo_of_a_file(tmp_path: Path) -> None:
    file = write_method(tmp_path / "pull.py")
    assert placebo_of(f"{file}(mu=0.3)") == f"{file}(mu=0.0)"


def test_settings_travel_to_another_process_without_the_class(tmp_path: Path) -> None:
    file = write_method(tmp_path / "pull.py")
    config = configure({"methods": f"{file}(mu=0.1)"})
    assert b"fedmirage_file" not in pickle.dumps(config)
    assert pickle.loads(pickle.dumps(config)) == config


# Who decides what is imported


def write_trap(folder: Path, name: str) -> Path:
    """A module that leaves a trace when it is imported."""
    (folder / f"{name}.py").write_text(f"open({str(folder / 'trace')!r}, 'w')")
    return folder / "trace"


def context(methods: str, allow: str = "") -> Context:
    settings = {**configure().flat(), "methods": methods}
    node = {"partition-id": 0, "allow": allow}
    return Context(1, 1, node, RecordDict(), settings)  # type: ignore[arg-type]


def test_a_node_imports_only_what_its_owner_lists(installed: Path) -> None:
    trace = write_trap(installed, "trap_one")
    register(installed, "trap", {"trap-one": "trap_one:Pull"})
    for methods, sentence in {
        "trap-one": "this node does not import trap_one for a run; its owner lists what it may in",
        "trap_one:Pull": "this node does not import trap_one for a run",
        "os:system(command='id')": "this node does not import os for a run",
        f"{installed}/trap_one.py": "this node imports no file that a run names",
        "not-here": "this node has no method called 'not-here'; its owner installs the package",
    }.items():
        with pytest.raises(FedmirageError, match=sentence):
            read_settings(context(methods))
        with pytest.raises(FedmirageError, match="this node"):
            read_settings(context(methods, allow="mylab, trap"))
    assert not trace.exists()


def test_a_node_reads_what_it_allows(installed: Path) -> None:
    install_skeleton("allowed-one", installed)
    config = read_settings(context("allowed-one", allow="fedmirage_allowed_one"))
    assert config.own_code == ["fedmirage_allowed_one:AllowedOne"]


def test_reading_a_record_imports_no_file_and_no_module(installed: Path) -> None:
    trace = write_trap(installed, "trap_two")
    for methods in (f"{installed}/trap_two.py(mu=1)", "trap_two:Pull(mu=1)"):
        config = config_of({"methods": methods, "rounds": 3})
        assert config.rounds == 3
        assert len(config.method_list) == 1
    assert not trace.exists()
