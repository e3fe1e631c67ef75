"""The exchanges of one try of a secure round: Flower's SecAgg+ workflow, with our masks.

There are four: public keys; key shares; masked vectors, for which the clients train; shares that
open the masks of the sum. If not all clients are neighbours, they draw lots for their seats after
the first. Before the last, the clients agree on who is left, unless all of them are neighbours and
nobody was lost (docs/security.md says why that is enough). A client that is lost while training is
left out, and the sum of the others is exact. A client that is lost earlier ends the try, because
the masks of the others depend on it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common import FitRes, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import WorkflowState

from fedmirage.common.secagg.neighbours import KeyPlan
from fedmirage.common.secagg.replacements import ON_THE_SERVER, install
from fedmirage.common.secagg.settings import MODULUS_BITS, SecAggOn
from fedmirage.common.secagg.vector import Steps
from fedmirage.server.messages.courier import Courier
from fedmirage.server.messages.plain import Asked, RoundFailed, explain

install(import_module(SecAggPlusWorkflow.__module__), ON_THE_SERVER)
Step = Callable[[Any, LegacyContext, WorkflowState], bool]
# What Flower and the replaced functions raise for shares or keys that do not fit together.
UNFIT = (ValueError, KeyError, TypeError, IndexError)


@dataclass
class Protocol:
    """One try; `run` raises RoundFailed if too few clients are left, or if somebody has lied."""

    secagg: SecAggOn
    asked: Asked
    courier: Courier
    manager: ClientManager
    state: WorkflowState = field(default_factory=WorkflowState)
    opening: bool = False  # whether clients were asked for what opens the sum

    def __post_init__(self) -> None:
        circle, plan = self.courier.circle, self.plan
        self.workflow = SecAggPlusWorkflow(
            plan.shares,
            plan.threshold,
            max_weight=1.0,
            clipping_range=self.secagg.clip,
            quantization_range=2**self.secagg.bits,
            modulus_range=2**MODULUS_BITS,
            timeout=self.courier.timeout,
        )
        self.handover = Handover(self.asked)
        self.context = LegacyContext(
            Context(0, 0, {}, RecordDict(), {}), strategy=self.handover, client_manager=self.manager
        )
        self.context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord(
            {WorkflowKey.CURRENT_ROUND: circle.round}
        )
        self.context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(
            ndarrays_to_parameters([]), True
        )

    def exchange_keys(self) -> None:
        """Do the first two exchanges, in which nobody may be lost."""
        self.stage("exchanging keys", self.workflow.setup_stage, len(self.asked))
        if self.courier.draws_lots and (drawn := self.courier.draw_seats()) < len(self.asked):
            raise self.failed(f"{drawn} of {len(self.asked)} clients drew lots for their seats.")
        circle, shares = self.courier.circle, self.plan.shares
        self.state.nid_to_neighbours = {
            node: circle.neighbours(node, shares) for node in circle.partitions
        }
        self.stage("sharing keys", self.workflow.share_keys_stage, len(self.asked))

    def train(self, least: int) -> set[int]:
        """Collect the masked vectors; return the nodes that are left, at least so many."""
        needed = max(least, self.plan.threshold)
        self.stage("training", self.workflow.collect_masked_vectors_stage, needed)
        left = set(self.state.active_node_ids)
        if not self.courier.circle.are_connected(left, self.plan.shares):
            raise self.failed("the clients that are left have no masks in common.")
        return left

    def open_sum(self, left: set[int]) -> Steps:
        """Let the clients agree on who is left, and open the sum of their vectors."""
        if self.plan.shares < len(self.asked) or len(left) < len(self.asked):
            agreed = self.courier.collect_agreement(left)
            if agreed < self.plan.threshold:
                raise self.failed(
                    f"{agreed} of {len(left)} clients agreed on who is left,"
                    f" {self.plan.threshold} are needed."
                )
        # With these two, Flower neither shifts nor scales the sum of whole numbers.
        self.state.clipping_range = 0.0
        self.state.quantization_range = len(left) * 2**self.secagg.bits
        self.opening = True
        self.stage("opening the sum", self.workflow.unmask_stage, self.plan.threshold)
        sums, factor = self.handover.aggregated
        return self.check_sum(sums, factor, len(left))

    def stage(self, what: str, step: Step, needed: int) -> None:
        """Do one exchange of Flower's workflow, after which so many clients must be left."""
        try:
            done = step(self.courier, self.context, self.state)
        except UNFIT as error:
            raise self.failed(f"secure aggregation failed while {what}: {error!r}.") from None
        remaining = len(self.state.active_node_ids)
        left = f"secure aggregation was left with {remaining} of {len(self.asked)} clients"
        if remaining < needed:
            raise self.failed(f"{left} while {what}, {needed} are needed.")
        if not done:
            raise self.failed(f"{left} while {what}, and some client has too few neighbours.")

    def check_sum(self, sums: Any, factor: Any, clients: int) -> Steps:
        """Return the sum in steps; refuse numbers that the clients cannot have sent.

        They show that masks did not cancel, or that a client has changed Flower's factor.
        """
        most = clients * 2**self.secagg.bits
        if factor.tolist() != [1.0] or sums.min(initial=0) < 0 or sums.max(initial=0) > most:
            raise self.failed(
                f"the sum holds numbers that {clients} clients cannot have sent; a client's masks"
                " or message were not those of this version."
            )
        return np.asarray(sums.astype(np.int64) - most // 2)

    def failed(self, why: str) -> RoundFailed:
        """Say why the try ends, and who was lost."""
        lost = explain(self.courier.list_refused())
        return RoundFailed(f"round {self.courier.circle.round}: {why} {lost}".rstrip())

    @property
    def plan(self) -> KeyPlan:
        """How the try shares its keys."""
        return self.secagg.key_plan(len(self.asked))


class Handover(FedAvg):
    """Stands in for the strategy in Flower's workflow: passes instructions on, keeps the sum."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked
        self.aggregated: list[Any] = []

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> Any:
        """Return what the run's own strategy has configured."""
        return self.asked

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: Any
    ) -> Any:
        """Keep what every result holds: the sum, and the factor by which Flower has scaled it."""
        self.aggregated = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}
