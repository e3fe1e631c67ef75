"""A run on the server: from the configuration and Flower's grid to the summary line.

The ServerApp (server/app.py) calls `run`, which claims the folder of the results. `prepare` builds
the strategy, the roster of clients, and `fit`, which is one round of messages. `Rounds`
(server/rounds.py) then does the work.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from flwr.common import log, parameters_to_ndarrays
from flwr.server.strategy import Strategy
from flwr.serverapp import Grid

from fedmirage.common import device
from fedmirage.common.data.names import announce_names
from fedmirage.common.data.tables.comparison import announce_schema, hash_schema
from fedmirage.common.errors import FedmirageError, is_disk_full
from fedmirage.common.methods import half
from fedmirage.common.methods.fedavg import FedAvg
from fedmirage.common.own_code import announce_sources, hash_sources, is_standard, module_of
from fedmirage.common.run import Run, appearance, form_of, make_run
from fedmirage.common.secagg.settings import SecAggFlower, SecAggOn
from fedmirage.common.secagg.vector import SecureVector
from fedmirage.common.settings.config import RunConfig
from fedmirage.server.messages.plain import Fit, PlainFit
from fedmirage.server.messages.preparation import Preparer
from fedmirage.server.messages.replies import ReplyCheck, Send, exchange
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.statistics import choose_gathering, require_scale
from fedmirage.server.messages.store import ReplyStore
from fedmirage.server.messages.tries import Tries
from fedmirage.server.record import folder as folders
from fedmirage.server.record.checkpoint import Checkpoint
from fedmirage.server.record.results import Results
from fedmirage.server.record.scores import Evaluator
from fedmirage.server.rounds import Rounds
from fedmirage.server.start import check_with_data, describe_data, find_start, link_memories
from fedmirage.server.strategy.average import Average
from fedmirage.server.strategy.context import ServerContext
from fedmirage.server.strategy.dp import dp_average
from fedmirage.server.strategy.drift import Drift
from fedmirage.server.strategy.wrapper import StrategyWrapper, load_state

MEGABYTE = 10**6


def run(
    grid: Grid, config: RunConfig, around: Callable[[Strategy], Strategy] = lambda one: one
) -> dict[str, Any]:
    """Do one whole run; whatever happens, results.jsonl ends with a line that says how it ended.

    `around` may wrap the strategy of all methods once more, for who wants to see its messages.
    """
    given = config.resume or config.out
    folder = Path(given or folders.make_vacant(Path("runs", time.strftime("%Y%m%d-%H%M%S"))))
    folder = folder.absolute()
    with folders.claim(folder):
        folders.require_same_settings(config, folder)
        if (summary := folders.find_finished(config, folder)) is not None:
            log(INFO, "%s", folders.say_finished(summary))
            return summary
        folders.require_vacant(config, folder)
        log(INFO, "results go to %s", folder)
        for caution in config.cautions:
            log(WARNING, "%s", caution)
        results = Results(folder, partial(log, INFO))
        try:
            ask_owners(grid, config)
            return prepare(grid, config, folder, results, around).run()
        except BaseException as error:
            status = "interrupted" if isinstance(error, folders.ENDINGS) else "failed"
            reason = folders.explain(error, folder)
            with contextlib.suppress(OSError):  # the disk may be full
                results.drop_torn()
                results.finish(status, reason=reason)
            if is_disk_full(error):
                raise FedmirageError(reason) from error
            raise


def ask_owners(grid: Grid, config: RunConfig) -> None:
    """Let the nodes answer a run that names modules of Python itself.

    Such a run fails in any case, also here. But who submits it is told what counts: what the owners
    of the nodes let a run import.
    """
    if any(is_standard(module_of(reference)) for reference in config.own_code):
        send = partial(exchange, grid)
        Roster(grid, config.clients, config.seed, send, expected={}).await_all(config.node_timeout)


def prepare(
    grid: Grid,
    config: RunConfig,
    folder: Path,
    results: Results,
    around: Callable[[Strategy], Strategy],
) -> Rounds:
    """Load and build everything that the rounds need; refuse what is wrong before any message."""
    threads = config.server_threads or device.cores()
    chosen = device.prepare(config, threads)
    dataset = describe_data(config)
    check_with_data(config, dataset)
    run, model = make_run(config, dataset, chosen)
    state = find_start(run, folder)
    run = run.without_shared_weights()
    if config.warm_start:
        link_memories(Path(config.warm_start.partition("@")[0]) / "memory", folder / "memory")
    if config.resume:
        results.resume(config, state.round)
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
            **({"fingerprint": dataset.fingerprint} if config.server_reads_data else {}),
            **({"schema_hash": hash_schema(dataset.schema)} if dataset.schema else {}),
            "token": state.token,
            "start_round": state.round,
            "keeps_local_models": run.keeps_local_models,
            "sources": hash_sources(config.own_code),
        }
        results.begin(config, resolved)
        for text in model.remarks:
            results.note(0, text)
    send = partial(exchange, grid)
    told = announce_names(dataset) | announce_schema(dataset.schema)
    told |= announce_sources(config.own_code)
    roster = Roster(
        grid,
        config.clients,
        config.seed,
        send,
        expected=appearance(dataset) if config.server_reads_data else form_of(dataset),
        told=told,
        secret=config.dp_params.secret_draw,
        no_substitutes=isinstance(config.secagg_params, SecAggOn),
    )
    tries = Tries(config, roster, results)
    gather = choose_gathering(tries, send, dataset.schema, state)
    scaled = require_scale(tries, dataset, gather, state)
    run = replace(run, dataset=scaled)
    evaluator = Evaluator(run, model)
    strategy = around(make_strategy(run, state, evaluator, results))
    load_state(strategy, state.strategy)
    if state.round == 0 and (first := strategy.initialize_parameters(roster.draw(0))) is not None:
        # As in Flower, the strategy decides with which parameters a new run begins.
        state.shared = parameters_to_ndarrays(first)
    fit = make_fit(run, strategy, roster, send, state, folder)
    prepares = any(method.prepares for method in config.method_list)
    turns = (roster, send, config.round_timeout, results, state.identity)
    preparer = Preparer(*turns) if prepares else None
    return Rounds(config, folder, strategy, roster, tries, fit, evaluator, results, state, preparer)


def make_fit(
    run: Run, strategy: Strategy, roster: Roster, send: Send, state: Checkpoint, folder: Path
) -> Fit:
    """Choose how the server receives the clients' updates: each one, or only their sum."""
    config = run.config
    usual = (strategy, roster, send, config.round_timeout, config.min_replies, state)
    secagg = config.secagg_params
    if not secagg.active:
        store = ReplyStore(folder, config.reply_memory * MEGABYTE)
        return PlainFit(*usual, ReplyCheck(run), store)
    log(INFO, "%s", secagg.budget(config.drawn))
    # Their cryptography takes time to load.
    if isinstance(secagg, SecAggFlower):
        from fedmirage.server.messages.flower import FlowerFit

        return FlowerFit(*usual, secagg, run)
    from fedmirage.server.messages.secagg import SecureFit

    assert isinstance(secagg, SecAggOn)
    return SecureFit(*usual, secagg, SecureVector(run), config.drawn)


def make_strategy(run: Run, state: Checkpoint, evaluator: Evaluator, results: Results) -> Strategy:
    """Wrap the server halves of the methods line around FedAvg; each wraps those to its left."""
    config = run.config
    strategy: Strategy = Average(
        state.shared,
        config.participation,
        config.weighs,
        evaluator if config.server_reads_data else None,
        state.address,
        config.validation > 0,
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
