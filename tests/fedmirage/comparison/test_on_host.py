"""The files of a run on another host come back as they are there, at any moment."""

from pathlib import Path

from fedmirage.comparison.on_host import Sender, list_parent, list_run, receive
from fedmirage.server.record import checkpoint


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in list_run(folder)}


def test_what_has_changed_travels_and_nothing_else(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    sender, names = Sender(there), {str(there): str(here)}
    write(there, results_jsonl=f'{{"out": "{there}"}}\n{{"rou', model_bin="1", memory__a_bin="2")
    pieces = sender.read()
    receive(here, pieces, names)
    assert (here / "results.jsonl").read_text() == f'{{"out": "{here}"}}\n'  # whole lines only
    assert (here / "memory" / "a.bin").stat().st_mode & 0o77 == 0
    assert sender.read() == []
    write(there, results_jsonl=f'{{"out": "{there}"}}\n{{"round": 1}}\n')
    (there / "memory" / "a.bin").unlink()
    pieces = sender.read()
    assert [(one.name, one.content) for one in pieces] == [
        ("results.jsonl", b'{"round": 1}\n'),
        ("memory/a.bin", None),
    ]
    receive(here, pieces, names)
    assert contents(here) == {
        "results.jsonl": f'{{"out": "{here}"}}\n{{"round": 1}}\n',
        "model.bin": "1",
    }
    write(there, results_jsonl='{"other": 1}\n{"round": 1}\n{"round": 2}\n')  # written anew
    receive(here, sender.read(), names)
    assert (here / "results.jsonl").read_text() == (there / "results.jsonl").read_text()


def test_a_checkpoint_comes_last_and_never_from_the_middle_of_a_round(tmp_path: Path) -> None:
    sender = Sender(tmp_path)
    write(tmp_path, results_jsonl="{}\n", zebra_bin="1")
    (tmp_path / checkpoint.FILE).write_text("1")
    assert [piece.name for piece in sender.read()][-1] == checkpoint.FILE
    reads = sender._read_all

    def end_a_round() -> object:
        found = reads()
        (tmp_path / checkpoint.FILE).write_text("2" * (len(rounds) + 2))
        rounds.append(1)
        return found

    rounds: list[int] = []
    sender._read_all = end_a_round  # type: ignore[assignment,method-assign]
    assert sender.read() == []  # each time another round had ended
    assert len(rounds) == 5
    del sender._read_all
    assert [piece.name for piece in sender.read()] == [checkpoint.FILE]


def test_of_a_parent_only_what_a_child_needs_travels(tmp_path: Path) -> None:
    models = {f"models__round-{number:05d}_safetensors": "x" for number in range(3)}
    write(tmp_path, **models, images__a_png="x", results_jsonl="x", memory__b_bin="x")
    found = {path.relative_to(tmp_path).as_posix() for path in list_parent(tmp_path, 2)}
    assert found == {"models/round-00002.safetensors", "results.jsonl", "memory/b.bin"}
