"""A secure round with Flower's own SecAgg+: `SecAggPlusWorkflow`, as it is.

What is ours: which clients are asked, a deadline, and what becomes of the mean. Flower stops
without a word if a client is lost too early; the try is then repeated without the lost clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common import FitRes, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext, SimpleClientManager
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey

from fedmirage.common.errors import WireError
from fedmirage.common.run import Run
from fedmirage.common.secagg.flower import add_mean
from fedmirage.common.secagg.settings import LEAST, SecAggFlower
from fedmirage.common.secagg.vector import SecureMeans
from fedmirage.common.wire.payload import SHARED
from fedmirage.server.messages.carrier import EARLY, Carrier
from fedmirage.server.messages.plain import Asked
from fedmirage.server.messages.replies import check_examples, clean
from fedmirage.server.messages.secagg import SumFit, Summed


@dataclass
class FlowerFit(SumFit):
    """The server follows Flower's rules, and sees the mean and everybody's number of examples."""

    secagg: SecAggFlower
    run: Run

    def add_up(
        self, carrier: Carrier, parameters: Parameters, without: Mapping[int, str]
    ) -> Summed:
        """Follow Flower's workflow to the mean of the updates."""
        handover, least = Handover(carrier.asked), max(LEAST, self.min_replies)
        try:
            self.follow(carrier, handover)
            found = {proxy.partition: result for proxy, result in handover.results}
            examples = [result.num_examples for result in found.values()]
            for number in examples:
                check_examples(number)
            if len(found) >= least:
                (mean,) = parameters_to_ndarrays(next(iter(found.values())).parameters)
                shared = add_mean(self.run, mean, parameters_to_ndarrays(parameters))
                trained = sum(number > 0 for number in examples)
                means = SecureMeans({SHARED: shared}, trained, sum(examples), {})
                return means if trained else None, set(found)
            why = f"{len(found)} clients are left at its end, {least} are needed"
        except Exception as error:  # Flower lets any malformed message end its workflow
            why = str(error) if isinstance(error, WireError) else f"it ended with {error!r}"
        failed = carrier.failed(f"Flower's secure aggregation failed: {clean(why)}.")
        failed.without = dict(carrier.lost) if carrier.exchanges <= EARLY else {}
        raise failed

    def follow(self, carrier: Carrier, handover: "Handover") -> None:
        """Do one round of Flower's workflow, whose results the handover then has."""
        state, secagg = RecordDict(), self.secagg
        number = ConfigRecord({WorkflowKey.CURRENT_ROUND: carrier.number})
        nothing = compat.parameters_to_arrayrecord(ndarrays_to_parameters([]), True)
        state.config_records[MAIN_CONFIGS_RECORD] = number
        state.array_records[MAIN_PARAMS_RECORD] = nothing
        context = LegacyContext(
            Context(0, 0, {}, state, {}), strategy=handover, client_manager=SimpleClientManager()
        )
        shares, threshold = (
            int(value) if value > 1 else value
            for value in (secagg.num_shares, secagg.reconstruction_threshold)
        )
        workflow = SecAggPlusWorkflow(
            shares,
            threshold,
            max_weight=secagg.max_weight,
            clipping_range=secagg.clipping_range,
            quantization_range=secagg.quantization_range,
            modulus_range=secagg.modulus_range,
            timeout=self.timeout,
        )
        workflow(carrier, context)  # type: ignore[arg-type]


class Handover(FedAvg):
    """Stands for the strategy in Flower's workflow: passes instructions on, keeps the results."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked
        self.results: list[tuple[Any, FitRes]] = []

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> Any:
        """Return what the run's own strategy has configured."""
        return self.asked

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """Keep the results, each of which holds the mean."""
        self.results = results
        return None, {}
