"""A run on the server: from the configuration and Flower's grid to the summary line."""

import os
import secrets
import shutil
import time
from collections.abc import Sequence
from functools import partial
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from flwr.common import Scalar, log, parameters_to_ndarrays
from flwr.server.strategy import Strategy
from flwr.serverapp import Grid

from common import device
from common.data import load
from common.data.names import told_names
from common.errors import ConfigurationError, FedmirageError
from common.methods import half
from common.methods.fedavg import FedAvg
from common.run import Run, appearance, check_with_data, make_run
from common.secagg.settings import SecAggOn
from common.secagg.vector import SecureVector
from common.settings.config import RunConfig
from common.wire.payload import Arrays
from common.wire.weights import load as load_weights
from server.messages.checks import ReplyCheck
from server.messages.exchange import exchange
from server.messages.plain import Fit, PlainFit
from server.messages.sampling import Roster, Send
from server.record import checkpoint as checkpoints
from server.record.checkpoint import Checkpoint
from server.record.results import Results
from server.record.scores import Evaluator
from server.rounds import Rounds
from server.strategy.average import Average
from server.strategy.context import ServerContext
from server.strategy.dp import dp_average
from server.strategy.drift import Drift
from server.strategy.wrapper import StrategyWrapper, load_state


def run(grid: Grid, config: RunConfig) -> dict[str, Any]:
    """One whole run; whatever happens, results.jsonl ends with a line that says how it ended."""
    folder = Path(
        config.resume or config.out or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    ).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(folder)
    if not config.resume and results.lines("config"):
        raise ConfigurationError(
            [
                f"out={str(folder)!r} holds the results of another run; take another directory, or"
                " resume it"
            ]
        )
    log(INFO, "results go to %s", folder)
    for caution in config.cautions:
        log(WARNING, "%s", caution)
    try:
        return prepare(grid, config, folder, results).run()
    except BaseException as error:
        results.finish(
            "interrupted" if isinstance(error, KeyboardInterrupt) else "failed",
            reason=str(error) or repr(error),
        )
        raise


def prepare(grid: Grid, config: RunConfig, folder: Path, results: Results) -> Rounds:
    """Load and build everything that the rounds need; all that can be wrong before the first
    message is said here."""
    threads = config.server_threads or device.cores()
    place = device.prepare(config, threads)
    dataset = load(config.dataset, config.data_dir or None, config.download)
    check_with_data(config, dataset)
    run, model = make_run(config, dataset, place)
    evaluator = Evaluator(run, model)
    state = starting_point(run, folder)
    strategy = make_strategy(run, state, evaluator, results)
    load_state(strategy, state.strategy)

    if config.resume:
        results.forget_after(state.round)
    else:
        resolved = {
            "device": str(run.device),
            "threads": config.threads,
            "server_threads": threads,
            "task": run.task.name,
            "parameters": run.manifest.size,
            "classes": run.classes,
            "class_names": list(dataset.classes),
            "shape": list(run.shape),
            "fingerprint": dataset.fingerprint,
            "token": state.token,
            "start_round": state.round,
        }
        results.begin(config, resolved)
    send = partial(exchange, grid)
    facts = (appearance(dataset), told_names(dataset))
    roster = Roster(grid, config.clients, config.seed, send, *facts)
    if state.round == 0 and (first := strategy.initialize_parameters(roster)) is not None:
        # Where a new run begins is the strategy's to say, as in Flower.
        state.shared = parameters_to_ndarrays(first)
    fit = make_fit(run, strategy, roster, send, state)
    return Rounds(config, folder, strategy, roster, fit, evaluator, results, state)


def make_fit(run: Run, strategy: Strategy, roster: Roster, send: Send, state: Checkpoint) -> Fit:
    """How the clients' updates come together: each seen by the server, or only their sum."""
    config = run.config
    limits = (config.round_timeout, config.min_replies, state)
    if isinstance(secagg := config.secagg_params, SecAggOn):
        from server.messages.secagg import SecureFit  # its cryptography takes time to load

        log(INFO, "%s", secagg.budget(config.drawn))
        vector = SecureVector(run)
        return SecureFit(strategy, roster, send, *limits, secagg, vector, config.drawn)
    return PlainFit(strategy, roster, send, *limits, ReplyCheck(run))


def make_strategy(run: Run, state: Checkpoint, evaluator: Evaluator, results: Results) -> Strategy:
    """FedAvg, and round it the server halves of the methods line: left to right is inside out."""
    config = run.config

    def message(round_number: int) -> dict[str, Scalar]:
        return {"round": round_number, "token": state.token, "parent": state.parent}

    strategy: Strategy = Average(
        state.shared, config.participation, config.weighs, evaluator, message, config.validation > 0
    )
    context = ServerContext(run, evaluator, results.path.parent, results.note)
    strategy = dp_average(strategy, context)
    if config.diagnostics:
        strategy = Drift(strategy, FedAvg(), context)
    for method in config.method_list:
        kind = half("server", method, StrategyWrapper)
        if kind is not None:
            strategy = kind(strategy, method, context)
    return strategy


def starting_point(run: Run, folder: Path) -> Checkpoint:
    """Round 0 of a new run, the last round of one that is resumed, or a round of another run."""
    config, initial = run.config, run.shared.pick(run.initial, run.manifest)
    if config.resume:
        state = checkpoints.read(folder / checkpoints.FILE)
        require_same_model(state.shared, initial, config.resume)
        return state
    token = secrets.token_hex(8)
    if not config.warm_start:
        return Checkpoint(0, initial, token, counted={})
    source, _, number = config.warm_start.partition("@")
    parent = checkpoints.read(Path(source) / checkpoints.FILE)
    if number and not number.isdecimal():
        raise ConfigurationError(
            [f"warm-start={config.warm_start!r}: write DIR or DIR@ROUND with a whole number"]
        )
    start = int(number or parent.round)
    shared = (
        parent.shared
        if start == parent.round
        else kept_model(Path(source), start, run.shared.names)
    )
    require_same_model(shared, initial, config.warm_start)
    if start >= config.rounds:
        raise ConfigurationError(
            [
                f"rounds={config.rounds}, but warm-start={config.warm_start!r} begins after round"
                f" {start}; raise rounds"
            ]
        )
    link_memories(Path(source) / "memory", folder / "memory")
    return Checkpoint(start, shared, token, parent=f"{parent.token}@{start}", counted={})


def kept_model(source: Path, number: int, shared_names: Sequence[str]) -> Arrays:
    """A round's global model that was kept by keep-models=all; where nothing is shared, nothing had
    to be."""
    if not shared_names:
        return []
    path = source / "models" / f"round-{number:05d}.safetensors"
    if not path.exists():
        raise FedmirageError(
            f"{source} keeps no model of round {number}; run it with keep-models='all', or start"
            " from its last round"
        )
    named, _ = load_weights(path)
    return [named[name] for name in shared_names if name in named]


def require_same_model(found: Arrays, expected: Arrays, where: str) -> None:
    """Refuse weights of another model."""
    if [array.shape for array in found] != [array.shape for array in expected]:
        raise FedmirageError(
            f"the weights in {where} belong to another model than this run's; use the model, data"
            " set and methods that it had"
        )


def link_memories(source: Path, target: Path) -> None:
    """The clients' memories of the run that this one begins from, where this host has them; files
    never change, so links do."""
    for path in source.glob("*/client-*/round-*.safetensors"):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            try:
                os.link(path, place)
            except OSError:  # another file system, or one without links
                shutil.copy2(path, place)
