"""The innermost strategy: Flower's FedAvg, but sums run in partition order.

A section that no method has claimed is refused.
"""

import io
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from flwr.common import FitIns, FitRes, Parameters, Scalar, ndarrays_to_parameters
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg
from numpy.lib import format as npy

from fedmirage.common.errors import WireError
from fedmirage.common.method import Weighting
from fedmirage.common.wire.filed import FiledTensors
from fedmirage.common.wire.metrics import ANSWERED, PARTICIPANTS
from fedmirage.common.wire.payload import LAYOUT, SHARED, Arrays, decode, slices, view

Results = list[tuple[ClientProxy, FitRes]]
Failures = list[tuple[ClientProxy, FitRes] | BaseException]
Aggregated = tuple[Parameters | None, dict[str, Scalar]]  # the next model, and metrics
Scored = tuple[float, dict[str, Scalar]]  # the loss, and metrics
BLOCK = 1 << 16  # numbers of an array that are averaged at a time
Evaluate = Callable[[int, Arrays, dict[str, Scalar]], Scored | None]


class Average(FedAvg):
    """w <- sum_i p_i w_i, with p_i by examples or uniform.

    The bits of the result do not depend on the order in which replies arrive.
    """

    def __init__(
        self,
        initial: Arrays,
        participation: float = 1.0,
        weighting: Weighting = "examples",
        evaluate: Evaluate | None = None,
        fit_config: Callable[[int], dict[str, Scalar]] | None = None,
        evaluate_clients: bool = False,
    ) -> None:
        super().__init__(
            fraction_fit=participation,
            fraction_evaluate=1.0 if evaluate_clients else 0.0,
            min_fit_clients=1,
            min_evaluate_clients=1 if evaluate_clients else 0,
            min_available_clients=1,
            evaluate_fn=evaluate,
            on_fit_config_fn=fit_config,
            on_evaluate_config_fn=fit_config,
            fit_metrics_aggregation_fn=mean_metrics,
            evaluate_metrics_aggregation_fn=mean_metrics,
        )
        self.participation, self.weighting = participation, weighting
        self.types = [array.dtype for array in initial]
        self.first: Arrays | None = initial  # until the first message; then the run has a model

    def __repr__(self) -> str:
        return f"Average(weighting={self.weighting!r})"

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """Return the model of round 0."""
        return None if self.first is None else ndarrays_to_parameters(self.first)

    def num_fit_clients(self, num_available_clients: int) -> tuple[int, int]:
        """Round to the nearest number of clients (Flower's FedAvg turns 0.29 of 100 into 28)."""
        return max(1, round(num_available_clients * self.participation)), 1

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Write the layout of the message into each of FedAvg's instructions."""
        self.first = None
        layout = f"{SHARED}:{len(parameters.tensors)}"
        drawn = super().configure_fit(server_round, parameters, client_manager)
        return [
            (proxy, FitIns(ins.parameters, {**ins.config, LAYOUT: layout})) for proxy, ins in drawn
        ]

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Compute the weighted mean of `shared`; None if no client trained."""
        ordered = in_partition_order(results)
        weights = shares_of([result.num_examples for _, result in ordered], self.weighting)
        if weights is None:
            return None, {}
        models = [shared_tensors(result) for _, result in ordered]
        mean = [
            mean_tensor(models, place, weights, dtype) for place, dtype in enumerate(self.types)
        ]
        metrics = mean_metrics([(result.num_examples, result.metrics) for _, result in ordered])
        return Parameters(mean, "numpy.ndarray"), metrics


def in_partition_order(results: Results) -> Results:
    """Sort results by partition, so that sums do not depend on the order of arrival."""
    return sorted(results, key=lambda pair: int(pair[0].cid))


def participants(results: Results) -> int:
    """Count the clients that trained."""
    return sum(
        int(result.metrics.get(PARTICIPANTS, result.num_examples > 0)) for _, result in results
    )


def answered(results: Results) -> set[int]:
    """The partitions of the clients that answered."""
    return {
        int(cid)
        for proxy, result in results
        for cid in str(result.metrics.get(ANSWERED, proxy.cid)).split()
    }


def shares_of(examples: list[int], weighting: Weighting) -> list[float] | None:
    """The weight p_i of each client; they sum to 1. None if no client trained.

    A client that trained on nothing has the weight 0.
    """
    counts = [float(count > 0) if weighting == "uniform" else float(count) for count in examples]
    total = sum(counts)
    return [count / total for count in counts] if total > 0 else None


def weighted_mean(
    models: Iterable[Arrays], weights: list[float], types: list[np.dtype[np.generic]]
) -> Arrays:
    """Compute sum_i p_i w_i, with one client in memory at a time; the result has the model's types.

    The sum is in double precision. All products but the first are rounded to the clients' types
    before they are added; recorded runs depend on these bits.
    """
    totals: list[npt.NDArray[np.float64]] = []
    for weight, model in zip(weights, models, strict=True):
        if not totals:
            # A product with a single number is no array, to which nothing could be added in place.
            totals = [np.asarray(weight * array.astype(np.float64)) for array in model]
        else:
            for total, array in zip(totals, model, strict=True):
                total += weight * array
    return [total.astype(dtype) for total, dtype in zip(totals, types, strict=True)]


def mean_tensor(
    models: Sequence[Sequence[bytes]], place: int, weights: list[float], dtype: np.dtype[np.generic]
) -> bytes:
    """Compute `weighted_mean` of one array of the clients, in numpy's format, with the same bits.

    Beside the replies and the mean, a block of the array is in memory, or one client's whole array
    if some are in files.
    """
    filed = any(isinstance(model, FiledTensors) for model in models)
    first = view(models[0][place])
    step = max(1, first.size) if filed else BLOCK
    buffer = io.BytesIO()
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": first.shape}
    npy.write_array_header_1_0(buffer, header)
    for start in range(0, first.size, step):
        pieces = ([view(model[place]).reshape(-1)[start : start + step]] for model in models)
        (mean,) = weighted_mean(pieces, weights, [dtype])
        buffer.write(mean.data)
    return buffer.getvalue()


def shared_only(result: FitRes) -> Arrays:
    """Decode the section `shared` of a reply, from which every method must have taken its own."""
    return decode(shared_tensors(result))


def shared_tensors(result: FitRes) -> Sequence[bytes]:
    """Find the same without decoding it."""
    layout = str(result.metrics.get(LAYOUT, f"{SHARED}:{len(result.parameters.tensors)}"))
    left = [name for name in slices(layout, len(result.parameters.tensors)) if name != SHARED]
    if left:
        raise WireError(
            f"no method claims the section {left[0]!r} of a client's message; add its method to"
            " the methods line"
        )
    return result.parameters.tensors


def mean_metrics(results: list[tuple[int, dict[str, Scalar]]]) -> dict[str, Scalar]:
    """Average every numeric metric over the clients that sent it, weighted by examples.

    Clients that trained on nothing do not count.
    """
    counted = [(count, metrics) for count, metrics in results if count]
    names = dict.fromkeys(
        name
        for _, metrics in counted
        for name, value in metrics.items()
        if isinstance(value, int | float)
    )
    means: dict[str, Scalar] = {}
    for name in names:
        having = [(count, float(metrics[name])) for count, metrics in counted if name in metrics]
        total = sum(count for count, _ in having)
        means[name] = sum(count * value for count, value in having) / total
    return means
