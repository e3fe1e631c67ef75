"""The sites' scores of a model, where the server has no data of its own to score it with.

Clients that share the whole model score what they get before they train, so the model of a round is
scored while the next one is trained, and that costs no message. Nobody trains on the last model:
clients get one more message about it, and answer without training. Clients that share a part score
their own model after its training.
"""

from collections.abc import Mapping
from typing import Any, cast

from flwr.common import FitIns, Parameters

from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire import held_out
from fedmirage.common.wire.payload import LAYOUT, ONLY_SCORES, SHARED
from fedmirage.server.messages.plain import Asked, FitOutcome, add_last_counted
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.record.checkpoint import Checkpoint
from fedmirage.server.record.shown import call_clients

KIND = "held_out"  # of the line in results.jsonl


def ask_for_scores(
    config: RunConfig,
    roster: Roster,
    state: Checkpoint,
    parameters: Parameters,
    without: Mapping[int, str],
) -> Asked:
    """Prepare the message about the last model for the clients that a next round would draw."""
    number = state.round + 1
    told = {**state.address(number), LAYOUT: f"{SHARED}:{len(parameters.tensors)}"}
    ins = FitIns(parameters, {**told, ONLY_SCORES: True})
    drawn = cast(list[PartitionProxy], roster.draw(number, without).sample(config.drawn))
    return [(proxy, add_last_counted(ins, proxy, state)) for proxy in drawn]


def make_sites_line(config: RunConfig, scored: int, outcome: FitOutcome) -> dict[str, Any]:
    """Make the line about the model of a round from what its sites report."""
    secagg, total = config.secagg_params, outcome.secagg
    if isinstance(secagg, SecAggOn):
        clients = total["clients"] if total else 0
        found = held_out.means_of_sums(outcome.metrics, clients, secagg.max_examples)
    else:
        trained = [one for one in outcome.clients if one.get("examples")]
        found = held_out.means_of_reports([one for one in trained if held_out.EXAMPLES in one])
    model = "global" if config.shares_all else "personal"
    return {"kind": KIND, "round": scored, "model": model, **found}


def describe_missing(line: Mapping[str, Any], names: Mapping[int, str]) -> str:
    """Say which sites hold out nothing, or how many where nobody may know which; "" for none.

    `names` are those of sites, by partition.
    """
    count = line["without"]
    if not count:
        return ""
    whose = line.get("without_partitions")
    who = call_clients(whose, names) if whose else f"{count} of the sites"
    verb = "holds" if count == 1 else "hold"
    return f"{who} {verb} out no data, and the sites' scores do without"
