"""The command line without a run: help that teaches, lists that are complete, refusals with exit
codes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import click
import pytest
import typer
from typer.testing import CliRunner

from fedmirage import cli, entry
from fedmirage.cli import app
from fedmirage.commands.told import explained
from fedmirage.common.data.catalogue.params import DATASETS
from fedmirage.common.data.partitions.params import PARTITIONS
from fedmirage.common.dp.settings import DP
from fedmirage.common.errors import ConfigurationError, reason
from fedmirage.common.learning.schedules import SCHEDULES
from fedmirage.common.methods import METHODS
from fedmirage.common.models.params import MODELS
from fedmirage.common.secagg.settings import SECAGG
from fedmirage.common.settings.config import RunConfig, configure, key_of
from fedmirage.common.settings.project import project
from fedmirage.comparison.curves import draw_runs
from fedmirage.runtimes.bundle import digest, own_code
from fedmirage.runtimes.interrupts import Interruptions
from fedmirage.runtimes.superlink import LostRunError
from fedmirage.server.record.checkpoint import FILE as CHECKPOINT
from fedmirage.server.record.results import Results
from fedmirage.settings.layers import PRESETS, in_new_folder, read_toml, settle
from tests.support.commands import TINY, fedmirage
from tests.support.comparison import round_line, write_lines
from tests.support.inprocess import run_in_process
from tests.support.plugins import write_method
from tests.support.runs import SMALL, lines

runner = CliRunner(env={"COLUMNS": "300", "TERM": "dumb"})
COMMANDS: dict[str, click.Command] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def shown(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_written_for_a_terminal(name: str) -> None:
    assert "\\[" not in shown(name, "--help")  # how Rich would be told that a bracket is one


def test_every_setting_is_a_flag_with_its_sentence() -> None:
    text = shown("run", "--help")
    for name in RunConfig.model_fields:
        assert f"--{key_of(name)}" in text


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("methods", METHODS),
        ("models", MODELS),
        ("datasets", DATASETS),
        ("partitions", PARTITIONS),
        ("schedules", SCHEDULES),
    ],
)
def test_everything_there_is_is_listed_and_explained(command: str, names: dict[str, type]) -> None:
    listed = shown(command)
    for name, params in names.items():
        assert name in listed
        detail = shown(command, name.upper())
        assert all(key in detail for key in params.model_fields)  # type: ignore[attr-defined]


def test_allowed_values_stand_in_every_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.out, "_width", 200)  # so that no sentence is folded
    settings = " ".join(shown("run", "-h").split())
    assert "[sgd, adam or adamw; default: sgd]" in settings
    assert "[a number above 0 and of at most 1; default: 1.0]" in settings
    assert "'pixels', 'noise', 'generator' or 'none'" in shown("methods", "FedCOG")
    assert "a whole number from 1 to 8" in shown("models", "convnet")
    assert "a whole number from 1 to 1024 or None" in shown("datasets", "digits")


def test_presets_are_listed_on_a_line_each_and_shown_whole() -> None:
    listed = shown("presets").splitlines()
    for name, path in PRESETS.items():
        (line,) = [line for line in listed if line.startswith(f"{name} ")]
        assert name.partition("-")[0] in line.partition(" ")[2]
        assert shown("presets", name) == path.read_text()


def test_a_declaration_is_laid_out_for_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of the round keep to their column, and no line is broken twice."""
    monkeypatch.setattr(cli.out, "_width", 60)
    rows = [row.rstrip() for row in shown("methods", "moon").splitlines()]
    at = next(at for at, row in enumerate(rows) if row.startswith("   client   "))
    column = rows[at].index("trains on")
    ends = next(end for end in range(at, len(rows)) if rows[end].startswith("   client ->"))
    assert all(
        row[: column - 1].strip() == "" and row[column] != " " for row in rows[at + 1 : ends]
    )
    assert rows[ends].index("its model w_i") == column
    text = [row for row in rows if row and not row.startswith((" ", "│", "┃"))]
    differs = next(at for at, row in enumerate(text) if row.startswith("Differs from the paper"))
    assert len(text[differs]) > 45


def test_arguments_have_their_help() -> None:
    assert "One method, with everything you can set." in shown("methods", "--help")
    assert "The folder of a comparison, or the folders of runs." in shown("compare", "-h")


def test_a_docstring_explains_no_flag_that_is_not_there() -> None:
    def command(folder: str) -> None:
        """Do something.

        Options:
            fodler: Where.
        """

    with pytest.raises(TypeError, match="explains fodler, which it does not have"):
        explained(command)


def test_a_flag_that_no_line_explains_is_refused() -> None:
    def command(known: Annotated[str, typer.Option(help="Typer's.")], folder: str) -> None:
        """Do something."""

    with pytest.raises(TypeError, match=r"command does not explain folder$"):
        explained(command)


def test_a_line_that_explains_no_flag_is_refused() -> None:
    def command(known: Annotated[str, typer.Option(help="Typer's.")]) -> None:
        """Do something.

        Options:
            known Its colon is missing.
        """

    with pytest.raises(TypeError, match=r"colon is missing.* under Options explains no flag"):
        explained(command)


def test_the_version_is_that_of_the_project() -> None:
    assert shown("--version").strip() == f"fedmirage {project()['project']['version']}"


def test_commands_are_found_in_any_case_and_typos_are_told_the_nearest() -> None:
    assert shown("Privacy") == shown("privacy")
    result = runner.invoke(app, ["metods"])
    assert result.exit_code == 2
    assert result.output.count("did you mean") == 1
    assert "'methods'" in result.output


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_is_readable_in_80_columns(command: str) -> None:
    """Every option is listed, with its default, and has room for a sentence beside its name."""
    lines = shown(command, "--help").splitlines()
    assert max(map(len, lines)) <= 80
    told = [line for line in lines if line.startswith("  -")]
    shown_options = " ".join(told)
    for option in COMMANDS[command].params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.opts[0] in shown_options
    assert all(line[:2] == "  " and not line[2:4].isspace() for line in told)


def test_defaults_stand_in_the_help_of_a_node() -> None:
    text = " ".join(shown("supernode", "--help").split())
    for default in ("127.0.0.1:9092", "127.0.0.1:9094", "own", "without end"):
        assert f"[default: {default}]" in text
    assert "default: forked]" in text
    assert "0.001 with Adam and AdamW" in " ".join(shown("run", "--help").split())


def test_doctor_folds_what_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"digits": "embedded", "mnist": None, "svhn": None}
    monkeypatch.setattr("fedmirage.show.doctor.list_available", lambda folder: found)
    text = shown("doctor")
    assert "torchvision import" in text
    assert "embedded" in text
    assert text.count("not found") == 1
    assert "mnist, svhn; --download fetches some" in text


def test_doctor_shows_the_whole_checksum_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there to be compared with another site's, also in a narrow terminal."""
    monkeypatch.setattr(cli.out, "_width", 60)
    assert digest(own_code()) in "".join(
        letter for letter in shown("doctor") if letter not in " │\n"
    )


def test_partition_draws_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.out, "_width", 60)
    text = shown("partition", "--clients", "5", "--out", str(tmp_path))
    assert "Heterogeneity of 5 clients" in text
    assert f"picture: {tmp_path}/clients-by-classes.png\n" in text  # whole, so it can be copied
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "clients-by-classes.png",
        "pixels-by-client.png",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run", "--clients", "-1", "--methods", "fedagv", "--lr", "x"],
            ["clients='-1'", "'fedavg'", "lr='x'"],
        ),
        (["run", "--clients", "10", "--lr", "0"], ["lr='0'"]),
        (["run", "--participation", "abc"], ["participation='abc'"]),
        (["run", "--min-replies", "x", "--clients", "0"], ["min-replies='x'", "clients='0'"]),
        (["run", "--secagg", "on(bound=6)"], ["is now 'max_examples'"]),
        (["run", "--partition", "classes(per_client=11)"], ["per_client=11"]),
        (["run", "--clients", "5000"], ["5000"]),
        (["run", "--dataset", "digits(size=8)"], ["simple-cnn", "size"]),
        (
            ["run", "--dataset", "cifar100", "--data-dir", "/nonexistent"],
            ["cifar100", "--download"],
        ),
        (["run", "--runtime", "cloud"], ["runtime='cloud'"]),
        (
            ["run", "--partition", "natural(by='user')", "--actors", "-1", "--runtime", "grpc"],
            ["needs the column 'user'", "actors=-1"],
        ),
        (["run", "--warm-start", "/nonexistent"], ["there is no run in /nonexistent"]),
        (["run", "--config", "/nonexistent.toml"], ["there is no file"]),
        (["run", "--preset", "fedcog-fmnist"], ["did you mean", "'fedcog-fmnist-niid"]),
        (["run", "--resume", "/nonexistent"], ["resume='/nonexistent'"]),
        (["methods", "fedagv"], ["did you mean 'fedavg'"]),
    ],
)
def test_refusals_before_any_work(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    placed = arguments[0] == "run" and "--resume" not in arguments
    extra = ["--out", str(tmp_path / "run")] if placed else []
    monkeypatch.setattr("sys.argv", ["fedmirage", *arguments, *extra])
    monkeypatch.setattr(cli.err, "_width", 300)
    with pytest.raises(SystemExit) as ended:
        cli.carry_out()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    for word in words:
        assert word in said
    assert not (tmp_path / "run").exists()


def test_a_refusal_of_the_program_itself(tmp_path: Path) -> None:
    """In a process of its own: the exit code, sentences, and no stack trace."""
    wrong = ["--clients", "-1", "--methods", "fedagv", "--lr", "x"]
    done = fedmirage("run", *wrong, "--out", str(tmp_path / "run"), timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 3
    assert not (tmp_path / "run").exists()


def test_files_and_flags_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("clients = 3\nrounds = 4\nlr = 0.5\n")
    config = settle(
        [read_toml(tmp_path / "one.toml", "config")], {"rounds": "6", "out": str(tmp_path / "x")}
    )
    assert (config.clients, config.rounds, config.lr) == (3, 6, 0.5)


def test_runs_that_start_within_one_second_get_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that writes nothing, because it is refused, leaves no folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedmirage.settings.layers.time.strftime", lambda _: "20260101-120000")
    config = settle([], {})
    with in_new_folder(config) as placed:
        assert Path(placed.out).is_dir()
    assert not (tmp_path / "runs").exists()

    def begin(_: int) -> str:
        with in_new_folder(config) as placed:
            Path(placed.out, "results.jsonl").touch(exist_ok=False)
            return placed.out

    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(begin, range(8)))
    usual = tmp_path / "runs" / "20260101-120000-digits-fedavg"
    assert folders == {str(usual), *(f"{usual}-{number}" for number in range(2, 9))}
    with in_new_folder(config) as placed:
        assert Path(placed.out).is_dir()
    assert {str(folder) for folder in usual.parent.iterdir()} == folders


def test_the_name_of_runs_is_taken_by_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").touch()
    with (
        pytest.raises(ConfigurationError, match="runs is a file; choose another folder"),
        in_new_folder(settle([], {})),
    ):
        pass


def test_an_old_run_is_never_overwritten(tmp_path: Path) -> None:
    config = {"kind": "config", **configure().flat()}
    write_lines(tmp_path, [config, round_line(1, 0.5), round_line(2, 0.5)])
    done = fedmirage("run", "--out", str(tmp_path), timeout=60)
    assert done.returncode == 1
    assert "holds the results of another run" in done.stderr


def test_resume_refuses_other_settings(tmp_path: Path) -> None:
    write_lines(tmp_path, [{"kind": "config", **configure({"lr": 0.5, "rounds": 3}).flat()}])
    with pytest.raises(ConfigurationError, match=r"you gave lr=0\.1 \(it was 0\.5\)"):
        settle([], {"resume": str(tmp_path), "lr": "0.1"})
    with pytest.raises(ConfigurationError, match="drop preset, config and out"):
        settle([], {"resume": str(tmp_path), "out": str(tmp_path / "elsewhere")})
    with pytest.raises(ConfigurationError, match="drop preset, config and out"):
        settle([{"clients": 3}], {"resume": str(tmp_path)})
    config = settle([], {"resume": str(tmp_path), "rounds": "9", "lr": "0.50"})
    assert (config.lr, config.rounds) == (0.5, 9)


def test_compare(tmp_path: Path) -> None:
    run_in_process(tmp_path / "one", **{**SMALL, "rounds": 2})
    run_in_process(tmp_path / "two", **{**SMALL, "rounds": 2, "methods": "fedprox(mu=1.0)"})
    text = shown(
        "compare",
        str(tmp_path / "one"),
        str(tmp_path / "two"),
        "--picture",
        str(tmp_path / "curve.png"),
    )
    assert "fedprox(mu=1.0)" in text
    assert "finished" in text
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert "there are no results" in fedmirage("compare", str(tmp_path), timeout=60).stderr


def test_compare_is_compact_and_shows_what_there_is(tmp_path: Path) -> None:
    """Two lines per run in a narrow terminal; a run without a summary has its rounds; one whose
    method never acted can be told from the others."""
    light = "length=2, iterations=2, steps=1, per_class=1, min_participants=1"
    methods = f"dynafed({light}, max_loss=1e-9)"
    run_in_process(tmp_path / "idle", **SMALL, methods=methods)
    run_in_process(tmp_path / ("a-long-name-" * 4), **{**SMALL, "methods": "fedprox(mu=1.0)"})
    run_in_process(tmp_path / "cut", **SMALL)
    Results(tmp_path / "cut").forget_after(2)
    folders = [str(path) for path in sorted(tmp_path.iterdir())]
    narrow = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
    text = narrow.invoke(app, ["compare", *folders]).output
    rows = text.splitlines()
    assert all(len(row) <= 80 for row in rows)
    cut = next(row for row in rows if row.startswith("cut"))
    assert cut.split()[1] == "2"
    assert cut.split()[-1] == "unfinished"
    assert "fedprox(mu=1.0)" in text
    (said,) = [at for at, row in enumerate(rows) if "dynafed never acted" in row]
    assert "no set was accepted" in " ".join(rows[said : said + 2])
    head = next(at for at, row in enumerate(rows) if row.startswith("run "))
    assert said == head + 1 + 2 * 3  # two lines per run
    assert "seed 0" in " ".join(rows[:head])  # what all runs have in common is not cut


def test_compare_names_the_scores_of_local_models(tmp_path: Path) -> None:
    """LG-FedAvg has no global model, so that its accuracies are those of the local models."""
    run_in_process(tmp_path / "part", **{**SMALL, "rounds": 1}, methods="lg-fedavg")
    evaluation = lines(tmp_path / "part")[-1]["evaluation"]
    local, average = (
        f"{100 * evaluation[f'{name}.by_examples.accuracy']:.2f} %"
        for name in ("local_model.on_test_shard", "average_of_local_models.on_test")
    )
    narrow = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
    rows = narrow.invoke(app, ["compare", str(tmp_path / "part")]).output.splitlines()
    expected = f"  local models {local} on test shards, their average {average} on the test set"
    assert expected in [row.rstrip() for row in rows]


def test_compare_repeats_the_notes_of_a_run_that_is_not_finished(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1, "methods": "moon"})
    Results(tmp_path).forget_after(1)
    text = " ".join(shown("compare", str(tmp_path)).split())
    assert "unfinished" in text
    assert "moon never acted: it acts from round 2 on" in text
    assert "rounds=1, so it never acts" in text


def test_a_picture_tells_twenty_runs_apart(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    run_in_process(tmp_path / "one", **{**SMALL, "rounds": 1})
    seen: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:

        def look(figure: Any, *_: Any, **__: Any) -> None:
            seen.extend((line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines)

        patch.setattr(Figure, "savefig", look)
        draw_runs([tmp_path / "one"] * 20, tmp_path / "curve.png")
    assert len(set(seen)) == 20


def test_a_finished_run_says_so_at_once(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    before = (tmp_path / "results.jsonl").read_text()
    done = fedmirage("run", "--resume", str(tmp_path), timeout=60)
    assert done.returncode == 0
    assert "finished after round 3; raise --rounds to go on" in done.stdout
    assert (tmp_path / "results.jsonl").read_text() == before


def test_a_warm_start_from_a_round_that_was_not_kept(tmp_path: Path) -> None:
    run_in_process(tmp_path / "one", **SMALL)
    settings = ["--dataset", SMALL["dataset"], "--clients", "4", "--out", str(tmp_path / "two")]
    start = ["--warm-start", f"{tmp_path / 'one'}@2", "--actors", "-3"]
    done = fedmirage("run", *settings, *start, timeout=60)
    assert done.returncode == 1
    assert "keeps no model of round 2" in done.stderr
    assert "actors=-3" in done.stderr
    assert not (tmp_path / "two").exists()


SUMMARY = {"status": "finished", "rounds": 1, "bytes_up": 0, "bytes_down": 0}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--secagg"], "on"),
        (["--secagg", "--rounds", "1"], "on"),
        (["--secagg", "on(clip=4)"], "on(clip=4)"),
        (["--secagg=off"], "off"),
        ([], "off"),
    ],
)
def test_secagg_needs_no_value(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], meant: str
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        "fedmirage.launch.launch",
        lambda config, *_, **__: seen.append(config.secagg) or SUMMARY,
    )
    result = runner.invoke(app, ["run", *typed])
    assert result.exit_code == 0, result.output
    assert seen == [meant]


def test_a_submitted_run_that_was_lost_says_how_to_continue_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its SuperLink was ended together with the server, which could not write a summary."""

    def lose(*_: Any) -> None:
        raise LostRunError("the run ended as finished:failed")

    monkeypatch.setattr(
        "fedmirage.deployment.link.find_link", lambda name: SimpleNamespace(home=None)
    )
    monkeypatch.setattr("fedmirage.submission.submit", lose)
    monkeypatch.chdir(tmp_path)
    words = ["submit", "federation", "--out", str(tmp_path / "first")]
    told = "to continue it: fedmirage submit federation --resume first"
    assert told not in runner.invoke(app, words).output
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / CHECKPOINT).touch()
    result = runner.invoke(app, words)
    assert told in result.output
    assert isinstance(result.exception, LostRunError)


def test_privacy_explains_every_key() -> None:
    text = shown("privacy")
    for params in (*SECAGG.values(), *DP.values()):
        for key in params.model_fields:
            assert key in text


def test_a_quiet_run_prints_nothing(tmp_path: Path) -> None:
    done = fedmirage("run", *TINY, "--quiet", "--clients", "2", "--out", str(tmp_path / "run"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    both = fedmirage("run", *TINY, "--quiet", "--verbose", "--lr", "0")
    assert both.returncode == 1
    assert "--quiet and --verbose exclude each other" in both.stderr
    assert "lr=" in both.stderr


def test_the_system_s_errors_are_shown_without_their_numbers(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "file"
    with pytest.raises(OSError, match="Errno") as raised:
        missing.read_text()
    assert reason(raised.value) == f"{missing}: no such file or directory"
    assert reason(OSError("odd")) == "odd"


@pytest.mark.parametrize(("command", "run"), [("compare", True), ("doctor", False)])
def test_only_runs_are_said_not_to_have_begun(
    command: str,
    run: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def end(code: int) -> None:
        raise SystemExit(code)

    def interrupted() -> None:
        entry.interruptions.last = 1.0
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "interruptions", Interruptions())
    monkeypatch.setattr(entry.interruptions, "install", lambda: None)
    monkeypatch.setattr(cli, "carry_out", interrupted)
    monkeypatch.setattr(entry.os, "_exit", end)
    monkeypatch.setattr(entry.sys, "argv", ["fedmirage", command])
    with pytest.raises(SystemExit, match="130"):
        entry.main()
    assert ("before the run began" in capsys.readouterr().err) == run


@pytest.mark.parametrize(("place", "told"), [("describe_run", False), ("attend", True)])
def test_an_interrupted_run_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, told: bool
) -> None:
    """By what conducts it, or, if it came before that, by the entry point."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry.interruptions, "told", False)
    monkeypatch.setattr(f"fedmirage.launch.{place}", interrupt)
    result = runner.invoke(app, ["run", *TINY, "--out", str(tmp_path / "run")])
    assert result.exit_code == 130
    assert ("the same command starts it again" in result.output) == told
    assert entry.interruptions.told == told


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("compare", "fedmirage.comparison.command.check_runs"),
        ("submit", "fedmirage.submission.describe_run"),
    ],
)
def test_an_interrupt_before_there_is_a_run_is_left_to_the_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, place: str
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    link = SimpleNamespace(home=None, here=False, name="far", environment={})
    monkeypatch.setattr("fedmirage.deployment.link.find_link", lambda name: link)
    monkeypatch.setattr(entry.interruptions, "told", False)
    monkeypatch.setattr(place, interrupt)
    words = ["far"] if command == "submit" else ["--methods", "scaffold"]
    result = runner.invoke(app, [command, *words, *TINY, "--out", str(tmp_path / "run")])
    assert result.exit_code == 130
    assert not entry.interruptions.told


def test_code_of_ones_own_is_found_in_the_current_folder(tmp_path: Path) -> None:
    """Also by the installed program, on whose path Python does not put that folder."""
    write_method(tmp_path / "pull_here.py")
    (tmp_path / "numpy.py").write_text("1 / 0")  # takes no library's place
    program = [sys.executable, "-P", "-c", "from fedmirage.entry import main; main()"]
    done = subprocess.run(
        [*program, "methods", "pull_here:Pull"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "0 gives FedAvg" in done.stdout
