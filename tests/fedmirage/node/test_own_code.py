"""A node that insists on its own code: what it compares, and that it executes nothing else."""

import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.supernode.runtime import run_clientapp as flower

from fedmirage.client.app import app
from fedmirage.common.errors import FedmirageError
from fedmirage.node.gate import Gate, explain
from fedmirage.runtimes.bundle import assemble, bundled_code, digest, own_code
from tests.support.nodes import read_way


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What `flwr run` would send."""
    return build_fab_from_disk(assemble(tmp_path_factory.mktemp("bundle") / "app"))


def changed(bundle: bytes, files: dict[str, str]) -> bytes:
    """A bundle in which some files have another text, with a list that is right again."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        content = {
            name: archive.read(name) for name in archive.namelist() if name != ".info/CONTENT"
        }
    content |= {name: text.encode() for name, text in files.items()}
    listed = [
        f"{name},{hashlib.sha256(text).hexdigest()},{8 * len(text)}"
        for name, text in content.items()
    ]
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
        archive.writestr(".info/CONTENT", "\n".join(listed))
    return written.getvalue()


def answer(gate: Gate) -> Message:
    """What the loaded app says to a message."""
    message = Message(RecordDict(), 7, "query")
    message.metadata.__dict__["_message_id"] = "asked"
    return gate.load("fedmirage/fedmirage", "0.1.0", "0" * 64)(
        message, Context(1, 7, {}, RecordDict(), {})
    )


def test_flowers_bundle_holds_exactly_the_code_that_is_compared(bundle: bytes) -> None:
    assert bundled_code(bundle) == own_code()
    assert "client/train.py" in own_code()


def test_a_run_with_the_same_code_gets_the_nodes_own_app(bundle: bytes) -> None:
    gate = Gate(own_code())
    gate.examine(bundle, skip_prompt=True)
    assert gate.load("any/name", "9.9", "f" * 64) is app


def test_another_setting_in_pyproject_is_no_other_code(bundle: bytes) -> None:
    """The run's configuration may say anything there; the node checks it as always."""
    gate = Gate(own_code())
    gate.examine(changed(bundle, {"pyproject.toml": "[tool.flwr.app.config]\nrounds = 99\n"}))
    assert gate.refusal == ""


@pytest.mark.parametrize("name", ["client/train.py", "server/run.py", "common/spy.py", "spy.json"])
def test_a_run_with_changed_code_is_refused_and_not_executed(
    bundle: bytes, name: str, tmp_path: Path
) -> None:
    proof = tmp_path / "executed"
    gate = Gate(own_code())
    gate.examine(changed(bundle, {name: f"open({str(proof)!r}, 'w')"}))
    error = answer(gate).error
    assert f"it differs in {name}; upgrade" in error.reason
    assert not proof.exists()


def test_many_differences_are_one_short_sentence() -> None:
    other = dict.fromkeys(own_code(), "")
    assert len(explain(own_code(), other, "1.0", "2.0")) < 400
    assert f"and {len(other) - 3} more" in explain(own_code(), other, "1.0", "2.0")
    assert digest(own_code()) != digest(other)


def test_a_run_without_a_bundle_is_refused() -> None:
    assert "brought no code" in answer(Gate(own_code())).error.reason


def test_a_flower_that_loads_code_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a newer Flower could run the bundle after all, and nobody would notice."""
    monkeypatch.delattr(flower, "install_from_fab")
    with pytest.raises(FedmirageError, match="has no install_from_fab"):
        Gate(own_code()).guard()


def test_tasks_stay_on_loopback_and_the_isolation_is_fixed() -> None:
    assert read_way("--insecure", "--superlink", "h:9092").address == "127.0.0.1:9094"
    assert read_way("--clientappio-api-address=127.0.0.1:9095").address == "127.0.0.1:9095"
    for option in ("--isolation", "--appio-ssl-certfile", "--superexec-auth-secret-file"):
        with pytest.raises(FedmirageError, match=f"{option} cannot be set"):
            read_way(option, "subprocess")


@pytest.mark.parametrize("bundle", [b"", b"PK\x03\x04 and then nothing"])
def test_a_damaged_bundle_is_refused(bundle: bytes) -> None:
    gate = Gate(own_code())
    gate.examine(bundle)
    assert gate.refusal == "the run's bundle is damaged"
