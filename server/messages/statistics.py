"""Forms the normalisation of a table: asks every client for the sums of its columns.

This happens once, before the first round. Whoever does not answer is asked again as often as a
round is tried; then the normalisation is formed without it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flwr.common import FitIns, ndarrays_to_parameters

from fedmirage.common.data.set import DataSet
from fedmirage.common.data.tables.statistics import (
    COUNT,
    Scale,
    Sums,
    Unscaled,
    check_sums,
    find_unscaled,
    form_scale,
)
from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.secagg.settings import MOST, SUM_BITS, SecAggFlower, SecAggOn
from fedmirage.common.secagg.sums import ROUND, SumsVector, write_table
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.payload import LAYOUT, SHARED
from fedmirage.common.wire.statistics import STATISTICS
from fedmirage.server.messages import plain
from fedmirage.server.messages.carrier import Carrier
from fedmirage.server.messages.properties import ask_for_properties, read_properties
from fedmirage.server.messages.replies import MOST_EXAMPLES, Send
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.messages.tries import Tries
from fedmirage.server.record.checkpoint import Checkpoint
from fedmirage.server.record.results import Results

SHOWN = 6  # names of columns in a sentence
Gathered = tuple[Sums, list[int]]  # the sums over all clients, and whose they are


def choose_gathering(
    tries: Tries, send: Send, schema: str, state: Checkpoint
) -> "PlainSums | SecureSums":
    """Choose how the server receives the clients' sums: each one's, or only those of all."""
    secagg = tries.config.secagg_params
    if isinstance(secagg, SecAggOn):
        return SecureSums(tries, secagg, send, schema, state)
    return PlainSums(tries.config, tries.roster, send)


def require_scale(
    tries: Tries,
    dataset: DataSet,
    gather: Callable[[Sequence[Unscaled]], Gathered],
    state: Checkpoint,
) -> DataSet:
    """Return the set with a normalisation; if it has none, that of all clients, formed now.

    A run that is resumed, or begins with the weights of another, keeps what these were trained on.
    """
    columns = find_unscaled(dataset)
    if not columns:
        return dataset
    if state.scale is None:
        tries.roster.await_all(tries.config.node_timeout)
        sums, partitions = gather(columns)
        scale = form_scale(dataset, sums)
        state.scale = scale.mean, scale.std
        record(columns, scale, sums, partitions, tries.results)
    if len(state.scale[0]) != dataset.shape[0]:
        raise FedmirageError(
            f"the run that this one continues has a normalisation of {len(state.scale[0])}"
            f" channels, and this table has {dataset.shape[0]}; use the schema that it had"
        )
    return Scale(*state.scale).apply(dataset)


def why_no_sums(config: RunConfig, columns: Sequence[Unscaled]) -> list[str]:
    """Say why the clients of this run cannot add up their columns; nothing if they can."""
    instead = f"write mean and std into the schema for {name_columns(columns)}"
    if config.dp_params.active:
        return [
            "dp: means and deviations of a table would be formed of the records without noise;"
            f" {instead}, from a public source"
        ]
    secagg = config.secagg_params
    if isinstance(secagg, SecAggFlower):
        return [
            "secagg: Flower's protocol cannot add up the columns of a table; write secagg='on', or"
            f" {instead}"
        ]
    if not isinstance(secagg, SecAggOn):
        return []
    problems = []
    if unbounded := [one for one in columns if not one.bounded]:
        problems.append(
            "secagg: a secure sum needs to know between which numbers values lie; write low and"
            f" high into the schema for {name_columns(unbounded)}, or mean and std"
        )
    if config.clients > MOST or secagg.needed_bits(config.clients) > SUM_BITS:
        problems.append(
            f"secagg: {config.clients} clients are too many for one secure sum of a table's"
            f" columns (at most {MOST}, and bits={secagg.bits} must fit); {instead}"
        )
    return problems


def name_columns(columns: Sequence[Unscaled]) -> str:
    """Name some columns, or the first of many."""
    names = [repr(one.column.name) for one in columns]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def record(
    columns: Sequence[Unscaled], scale: Scale, sums: Sums, partitions: list[int], results: Results
) -> None:
    """Write the normalisation, and of whose rows it was formed."""
    formed = {
        one.column.name: {
            "mean": scale.mean[one.channel],
            "std": scale.std[one.channel],
            "count": round(float(count)),
        }
        for one, count in zip(columns, sums[COUNT], strict=True)
    }
    line = {"kind": "normalisation", "round": 0, "columns": formed, "clients": partitions}
    results.append(line)
    results.log(
        f"mean and deviation of {len(columns)} columns were formed of the sums of"
        f" {len(partitions)} clients"
    )


@dataclass
class PlainSums:
    """Asks clients one by one, and adds up what they answer in the order of their partitions."""

    config: RunConfig
    roster: Roster
    send: Send

    def __call__(self, columns: Sequence[Unscaled]) -> Gathered:
        """Gather the sums over all clients."""
        answers: dict[int, Sums] = {}
        refused: list[dict[str, Any]] = []
        for _ in range(self.config.retries + 1):
            self.roster.refresh(self.config.node_timeout)
            waiting = [
                proxy
                for partition, proxy in sorted(self.roster.proxies.items())
                if partition not in answers
            ]
            found, refused = self.ask(waiting, columns)
            answers |= found
            if len(answers) == self.config.clients:
                break
        plain.warn(refused, self.roster.names)
        if len(answers) < self.config.min_replies:
            raise FedmirageError(
                f"{len(answers)} clients have told the sums of their columns, and"
                f" {self.config.min_replies} are needed (min-replies)."
                f" {plain.explain(refused, self.roster.names)}"
            )
        total = np.sum([answers[partition] for partition in sorted(answers)], axis=0)
        return total, sorted(answers)

    def ask(
        self, proxies: list[PartitionProxy], columns: Sequence[Unscaled]
    ) -> tuple[dict[int, Sums], list[dict[str, Any]]]:
        """Ask some clients, as many at a time as the roster does; say who was lost, and why."""
        found: dict[int, Sums] = {}
        refused: list[dict[str, Any]] = []
        for some in self.roster.cut(proxies):
            told = {STATISTICS: True}
            messages = [ask_for_properties(proxy.node_id, told) for proxy in some]
            replies = self.send(messages, self.config.node_timeout)
            read = partial(read_sums, columns=columns)
            results, lost = plain.sort_replies(some, replies, read, self.config.node_timeout)
            found |= {int(proxy.cid): sums for proxy, sums in results}
            refused += lost
        return found, refused


def read_sums(content: Any, columns: Sequence[Unscaled]) -> Sums:
    """Read what one client says, and refuse what cannot be."""
    told = read_properties(content).get(STATISTICS)
    if not isinstance(told, bytes) or len(told) != 8 * 3 * len(columns):
        raise WireError("it does not tell the sums of its columns; does it run the same version?")
    sums = np.frombuffer(told, "<f8").reshape(3, len(columns))
    check_sums(sums, columns, MOST_EXAMPLES)
    return sums


@dataclass
class SecureSums:
    """Lets all clients add up their columns in a secure round, of which only the sums are seen."""

    tries: Tries
    secagg: SecAggOn
    send: Send
    schema: str
    state: Checkpoint

    def __call__(self, columns: Sequence[Unscaled]) -> Gathered:
        """Gather the sums over all clients; a try that fails is repeated without who was lost."""
        # Its cryptography takes time to load.
        from fedmirage.server.messages.secagg import SecureSum

        config, roster = self.tries.config, self.tries.roster
        vector = SumsVector(self.secagg, columns)
        opener = SecureSum(roster, self.secagg, config.min_replies)

        def attempt_once(without: dict[int, str]) -> tuple[Sums, set[int]]:
            carrier = self.ask(without)
            try:
                return opener.open(carrier, config.clients, vector.size, vector.decode, without)
            finally:
                plain.warn(carrier.list_lost(), roster.names)

        sums, left = self.tries(ROUND, attempt_once)
        vector.require_fine(sums, len(left))
        return sums, sorted(left)

    def ask(self, without: Collection[int]) -> Carrier:
        """Prepare the request to all clients but those to do without."""
        parameters = ndarrays_to_parameters(write_table(self.schema))
        told = {**self.state.address(ROUND), LAYOUT: f"{SHARED}:1"}
        proxies = sorted(self.tries.roster.proxies.items())
        asked = [
            (proxy, FitIns(parameters, {**told}))
            for partition, proxy in proxies
            if partition not in without
        ]
        return Carrier(ROUND, asked, self.send, self.tries.config.round_timeout)
