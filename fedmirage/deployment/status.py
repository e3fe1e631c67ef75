"""Tells how a federation is getting on: its runs, who is connected, who is late or away.

A SuperLink knows who is connected now. The folder of a run knows whose replies counted.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest
from flwr.proto.control_pb2_grpc import ControlStub
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import Run as FlowerRun
from flwr.supercore.constant import NodeStatus

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import defaults
from fedmirage.deployment.link import Link
from fedmirage.records.lines import Lines, read_names, read_record
from fedmirage.server.messages.node_ids import Site, read_node_ids
from fedmirage.server.record.results import FILE
from fedmirage.server.record.shown import call_clients

SHOWN = 10  # runs of a SuperLink, which keeps all of them


@dataclass(frozen=True)
class ClientStatus:
    """What the results of a run know of one client."""

    name: str
    state: str
    late: bool  # it was left out after its last reply

    def __str__(self) -> str:
        return f"{self.name}: {self.state}"


@dataclass
class RunStatus:
    """What is known of one run."""

    name: str
    state: str
    methods: str
    rounds: str  # e.g. 3 of 10
    since: str
    folder: Path
    clients: list[ClientStatus] = field(default_factory=list)


def list_sites(link: Link, orders: ControlStub) -> list[tuple[str, str, str]]:
    """Return every site that may take part: its name, its partition, and since when it is there."""
    home = link.home
    sites = read_node_ids(home.nodes) if home and home.nodes.exists() else {}
    nodes = orders.ListNodes(ListNodesRequest()).nodes_info
    known = [node for node in nodes if node.status != NodeStatus.UNREGISTERED]
    ordered = sorted(known, key=lambda node: (place(sites, node), node.node_id))
    return [describe_node(sites.get(node.node_id), node) for node in ordered]


def place(sites: dict[int, Site], node: NodeInfo) -> float:
    """Sort nodes by partition, and those without a site last."""
    return sites[node.node_id].partition if node.node_id in sites else float("inf")


def describe_node(site: Site | None, node: NodeInfo) -> tuple[str, str, str]:
    """Describe a node by its site; one that stands for no site is called by Flower's number."""
    states = {
        NodeStatus.ONLINE: f"connected since {say_time(node.last_activated_at)}",
        NodeStatus.OFFLINE: f"away since {say_time(node.last_deactivated_at or left_at(node))}",
        NodeStatus.REGISTERED: "has never connected",
    }
    state = states.get(node.status, node.status)
    if site is None:
        return f"node {node.node_id}", "", state
    return str(site), str(site.partition), state


def left_at(node: NodeInfo) -> str:
    """Return when a node was last known to be there."""
    return datetime.fromtimestamp(node.online_until, UTC).isoformat() if node.online_until else ""


def list_runs(orders: ControlStub, wanted: str | None = None) -> list[RunStatus]:
    """Return the runs that a SuperLink knows, the newest first, or the one that is wanted."""
    runs = orders.ListRuns(ListRunsRequest()).run_dict
    known = sorted(runs.values(), key=lambda run: str(run.pending_at), reverse=True)
    if wanted is not None:
        known = [run for run in known if str(run.run_id) == wanted]
        if not known:
            others = ", ".join(str(run_id) for run_id in runs) or "none yet"
            raise FedmirageError(f"--run {wanted}: the SuperLink knows no such run, but {others}")
    return [describe_run(run) for run in known[:SHOWN]]


def describe_run(run: FlowerRun) -> RunStatus:
    """Describe a run by its settings, and by its results if they are on this machine."""
    told = {key: read_scalar(value) for key, value in run.override_config.items()}
    settings = {**defaults(), **told}
    state = ":".join(filter(None, (run.status.status, run.status.sub_status)))
    since = say_time(run.finished_at or run.running_at or run.pending_at)
    folder = Path(str(settings["resume"] or settings["out"] or "runs"))
    found = RunStatus(
        str(run.run_id), state, str(settings["methods"]), f"of {settings['rounds']}", since, folder
    )
    if folder.is_absolute() and (folder / FILE).exists():
        here = describe_folder(folder)
        found.rounds, found.clients = here.rounds, here.clients
    return found


def describe_folder(folder: Path) -> RunStatus:
    """Describe a run by its results."""
    lines = read_record(folder)
    if not lines:
        raise FedmirageError(f"{folder / FILE} is empty; the run has not begun")
    config, rounds = lines[0], [line for line in lines if line["kind"] == "round"]
    last = lines[-1]
    state = str(last["status"]) if last["kind"] == "summary" else "running, or killed"
    changed = datetime.fromtimestamp((folder / FILE).stat().st_mtime, UTC).isoformat()
    done = f"{rounds[-1]['round'] if rounds else 0} of {config['rounds']}"
    clients = list_clients(int(config.get("clients", 0)), rounds)
    methods = str(config["methods"])
    return RunStatus(folder.name, state, methods, done, say_time(changed), folder, clients)


def list_clients(count: int, rounds: Lines) -> list[ClientStatus]:
    """Return in which round each client's reply counted last, and since when it is left out."""
    names, told = read_names(rounds), list[ClientStatus]()
    counted = {
        client["partition"]: line["round"] for line in rounds for client in line.get("clients", [])
    }
    for partition in range(count):
        last = counted.get(partition, 0)
        since = [
            (line["round"], entry["reason"])
            for line in rounds
            for entry in line.get("refused", [])
            if entry["partition"] == partition and line["round"] > last
        ]
        state = f"its reply counted in round {last}" if last else "no reply has counted"
        if since:
            state += f"; left out since round {since[0][0]}: {since[-1][1]}"
        told.append(ClientStatus(call_clients([partition], names), state, bool(since)))
    return told


def read_scalar(value: Any) -> Any:
    """Read a setting out of Flower's message."""
    kind = value.WhichOneof("scalar")
    return getattr(value, kind) if kind else ""


def say_time(text: str) -> str:
    """Write a time of Flower's in this machine's time zone, to the minute."""
    try:
        return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return "an unknown time"
