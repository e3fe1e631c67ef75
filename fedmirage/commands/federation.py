"""Commands for federations on several machines: a node, and a run that is submitted to them."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmirage.commands.console import out
from fedmirage.commands.work import pick_settings
from fedmirage.common.errors import FedmirageError
from fedmirage.settings.layers import RUNS, choose_out, read_layers, settle
from fedmirage.show.words import say

FIXED = "cannot be set: fedmirage supernode decides itself how tasks are run; leave it out, or use"
FIXED += " flower-supernode, which runs any code"


def refuse(context: typer.Context, parameter: Any, value: Any) -> None:
    """Refuse an option of Flower's that would change how tasks are run."""
    if value is not None:
        raise FedmirageError(f"{parameter.opts[0]} {FIXED}")


def fixed(*names: str) -> Any:
    """Make an option that is refused."""
    return typer.Option(*names, hidden=True, callback=refuse)


def supernode(
    superlink: str = "127.0.0.1:9092",
    root_certificates: Path | None = None,
    auth_supernode_private_key: Path | None = None,
    insecure: bool = False,
    name: str = "",
    node_config: str = "",
    code: str = "own",
    tasks: Annotated[str, {"envvar": "FEDMIRAGE_TASKS"}] = "forked",
    waiting: Annotated[str, {"envvar": "FEDMIRAGE_WAITING"}] = "adaptive",
    clientappio_api_address: str = "127.0.0.1:9094",  # Flower's default listens on every interface
    forget: str | None = None,
    check: bool = False,
    sent: bool = False,
    memory: Path | None = None,
    verbose: bool = False,
    max_retries: int | None = None,
    max_wait_time: float | None = None,
    trusted_entities: Path | None = None,
    health_server_address: str | None = None,
    isolation: Annotated[str | None, fixed()] = None,
    appio_ssl_certfile: Annotated[str | None, fixed()] = None,
    superexec_auth_secret_file: Annotated[str | None, fixed()] = None,
) -> None:
    """Start a node: a SuperNode that answers quickly and runs only the code installed here.

    Its log has a line per run and one per round. It takes the options of flower-supernode, which
    by itself runs whatever code a run brings.

    Example: fedmirage supernode --insecure --superlink HOST:9092 --node-config 'partition-id=0'

    The connection:
        superlink: HOST:PORT at which the SuperLink expects nodes.
        root_certificates: The certificate of the authority that signed the SuperLink's (ca.crt).
            [default: what this system trusts]
        auth_supernode_private_key: This node's private key; the SuperLink has its public half
            registered. [default: none]
        insecure: Connect without TLS; only where nobody can listen.
    How it answers:
        name: What people call this site, e.g. site-a: the name under which its key was admitted.
            [default: client N]
        node_config: Pairs such as 'partition-id=0 data="/srv/x"'. Keys: partition-id (which client
            this is, from 0), data (its own data), memory (a folder), require, budget,
            budget-delta, secagg-key, secagg-peers, allow, weights (docs/running.md). Or a TOML
            file. [default: none]
        code own|any: own: only the code installed here; any: what a run brings.
        tasks forked|fresh: forked: from a process that has torch loaded; fresh: a new Python per
            message.
        waiting adaptive|flower: adaptive: short while a run is active; flower: always three
            seconds.
        clientappio_api_address: HOST:PORT where its own processes meet; one per node of a machine.
        forget RUN: Start nothing, but answer rounds of secure aggregation again that were answered
            in this run (docs/security.md says what that may reveal). [default: none]
        check: Start nothing, but check data, keys, memory, certificates, the way to the SuperLink,
            versions and device; exit with 1 on a fault. Every start checks the same, but for the
            device.
        sent: Start nothing, but show what this node has sent: a table of its outgoing.jsonl.
        memory: The folder where it keeps what it remembers and writes down what it sends; the same
            as memory= in --node-config. [default: $FLWR_HOME/fedmirage/memory]
        verbose: Show Flower's messages too, with their ids.
    Passed on to Flower:
        max_retries: Tries to reach the SuperLink again. [default: without end]
        max_wait_time: Seconds to try to reach it again. [default: without end]
        trusted_entities: YAML file of who may sign apps. [default: anybody]
        health_server_address: HOST:PORT of a health check. [default: none]
    """
    from fedmirage.node import checks
    from fedmirage.node import supernode as node

    asked = {"--check": check, "--forget": forget is not None, "--sent": sent}
    require_one([name for name, wanted in asked.items() if wanted])
    folder = str(memory.expanduser().absolute()) if memory else ""
    node_config = checks.add_pair(node_config, "memory", folder)
    if sent:
        from fedmirage.common.memory import find_memory
        from fedmirage.node.sent import show_sent

        show_sent(out, find_memory(checks.read_node_config(node_config)))
        return
    if forget is not None:
        count = node.forget(forget, node_config)
        print(f"This node forgets that it has answered {count} rounds of run {forget}.")
        return
    more = {
        "max-retries": max_retries,
        "max-wait-time": max_wait_time,
        "trusted-entities": trusted_entities,
        "health-server-address": health_server_address,
    }
    way = node.Way(
        superlink=superlink,
        insecure=insecure,
        root_certificates=root_certificates,
        private_key=auth_supernode_private_key,
        node_config=checks.add_name(node_config, name),
        code=code,
        tasks=tasks,
        waiting=waiting,
        address=clientappio_api_address,
        verbose=verbose,
        more=more,
    )
    if not check:
        node.start(way)
    elif not node.show_check(out, way):
        raise typer.Exit(1)


def require_one(asked: list[str]) -> None:
    """Refuse options that each do something else than start a node."""
    if len(asked) > 1:
        raise FedmirageError(f"{' and '.join(asked)} exclude each other; write one of them")


def submit(superlink: str, run_config: list[str] | None = None, **given: Any) -> None:
    """Submit a run to a SuperLink with nodes, show its rounds, and exit with 0 if it finished.

    Settings come from the defaults, then --preset, --config, --run-config, then flags. Ctrl-C stops
    the run. The results are on the SuperLink's machine, in --out; this prints where, and the
    command that copies them.

    Arguments:
        superlink: The SuperLink, by its folder on this machine or its name in Flower's config.toml.
    Options:
        run_config: Settings as for `flwr run`, e.g. 'rounds=3'; may be given several times.
    """
    from flwr.common.config import parse_config_args

    from fedmirage.deployment.link import find_link
    from fedmirage.runtimes.superlink import LostRunError
    from fedmirage.show.progress import show_summary
    from fedmirage.submission import submit as hand_in

    link = find_link(superlink)
    layers = read_layers(given["preset"], given["config"])
    layers += [parse_config_args([line]) for line in run_config or []]
    runs = link.home.runs if link.home is not None else RUNS  # the SuperLink may write there
    config = choose_out(settle(layers, pick_settings(given)), runs)
    folder = Path(config.resume or config.out)
    try:
        summary = hand_in(link, config, out)
    except LostRunError:
        say_how_to_continue(superlink, folder)
        raise
    folder = Path(summary.get("folder") or folder)
    shown = shorten(folder)
    if "rounds" in summary:
        show_summary(out, summary, shown)
    else:
        say(out, f"finished; the results are on {link.host}: {folder}")
    if link.home is not None or not link.here:
        say(out, f"to copy them: scp -r {link.host}:{shlex.quote(str(folder))} .")
    if summary["status"] != "finished":
        say_how_to_continue(superlink, folder)
        raise typer.Exit(1)


def say_how_to_continue(superlink: str, folder: Path) -> None:
    """Name the command that continues a run which ended early, if it has done a round."""
    from fedmirage.server.record.checkpoint import FILE as CHECKPOINT

    if (folder / CHECKPOINT).exists():
        say(out, f"to continue it: fedmirage submit {superlink} --resume {shorten(folder)}")


def shorten(folder: Path) -> Path:
    """Write a folder as seen from here, if it lies here."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
