"""Shows what FedLGD's distillation does to the distance between clients, and what it costs.

    python -m experiments.studies.fedlgd RUN [RUN ...]

writes RUN/fedlgd/study.json for runs of fedlgd in one process or a simulation, and prints
- the distance between the clients' images, before and after distillation (figure 1);
- what a client and the server compute (table 6), with what the paper leaves out.
"""

import json
from pathlib import Path
from typing import Any

from experiments.studies.command import Runs
from experiments.studies.fedlgd.cost import count_costs
from experiments.studies.fedlgd.distances import compare_clients, open_clients
from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from fedmirage.common.methods.fedlgd import FedLgd
from fedmirage.records.lines import read_config
from fedmirage.server.record.checkpoint import FILE as CHECKPOINT
from fedmirage.server.record.checkpoint import read_checkpoint


def study(folder: Path) -> dict[str, Any]:
    """Compute all metrics of one run."""
    config = read_config(folder)
    params = next((method for method in config.method_list if isinstance(method, FedLgd)), None)
    if params is None:
        raise FedmirageError(
            f"{folder} is a run of {config.methods!r}; give the folder of a run with fedlgd"
        )
    state = read_checkpoint(folder / CHECKPOINT)
    clients = open_clients(config, folder / "memory" / state.token, state.round)
    return {
        "distances": compare_clients(clients, config.seed),
        "operations": count_costs(params, config, load(config.dataset, config.data_dir or None)),
    }


def show(metrics: dict[str, Any]) -> str:
    """Write the metrics as lines of text."""
    lines = []
    for pair in metrics["distances"]["pairs"]:
        kinds = [kind for kind in pair if kind not in ("one", "other")]
        for name in pair["real"]:
            values = ", ".join(f"{kind} {pair[kind][name]:.4f}" for kind in kinds)
            lines.append(f"{pair['one']} and {pair['other']}, {name}: {values}")
    for kind, growth in metrics["distances"]["growth"].items():
        values = ", ".join(f"{name} {100 * value:+.1f} %" for name, value in growth.items())
        lines.append(f"growth of the distance, {kind} virtual images for real ones: {values}")
    lines += [f"{name}: {value / 1e9:,.3f} GFLOP" for name, value in metrics["operations"].items()]
    return "\n".join(lines)


def report(runs: Runs) -> None:
    """Show what FedLGD's distillation does to the distance between clients, and what it costs."""
    for folder in runs:
        metrics = study(folder)
        path = folder / "fedlgd" / "study.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(metrics, indent=1))
        print(f"{path}\n{show(metrics)}")
