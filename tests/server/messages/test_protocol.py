"""The sum that Flower's workflow opens stays whole, up to the last of its 53 bits."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.server.client_manager import SimpleClientManager
from flwr.server.workflow import SecAggPlusWorkflow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedmirage.common.secagg.circle import Circle
from fedmirage.common.secagg.masks import mask, quantize
from fedmirage.common.secagg.settings import MODULUS_BITS, SecAggOn
from fedmirage.server.messages.courier import Courier
from fedmirage.server.messages.protocol import Protocol

SEED = b"the seed of everybody's mask"


class Shares:
    """Answers the last request: every client gives a share of everybody's private mask."""

    timeout = 1.0

    def __init__(self, clients: int) -> None:
        nodes = {node: node for node in range(clients)}
        self.circle = Circle.gather("ab", 1, nodes)

    def send_and_receive(self, messages: list[Message], timeout: float | None = None) -> list[Any]:
        nodes = list(self.circle.partitions)
        shares = ConfigRecord({Key.NODE_ID_LIST: nodes, Key.SHARE_LIST: [SEED] * len(nodes)})
        return [
            SimpleNamespace(
                metadata=SimpleNamespace(src_node_id=message.metadata.dst_node_id),
                content=RecordDict({RECORD_KEY_CONFIGS: shares}),
                has_error=lambda: False,
            )
            for message in messages
        ]

    def list_refused(self) -> list[dict[str, Any]]:
        return []


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    clip=st.sampled_from([8.0, 7.0, 3.0, 2.7, 1.1, 0.3, 0.013]),
    bits=st.integers(46, 48),
    below=st.integers(1, 20),
    seed=st.integers(0, 999),
)
def test_the_sum_is_exact_near_the_last_bit(
    monkeypatch: pytest.MonkeyPatch, clip: float, bits: int, below: int, seed: int
) -> None:
    """As many clients as the bits of a sum allow, with numbers at both ends of the range: Flower's
    own divisions are wrong by a step there unless clip is a power of two."""
    monkeypatch.setattr(
        import_module(SecAggPlusWorkflow.__module__), "combine_shares", lambda shares: shares[0]
    )
    secagg = SecAggOn(clip=clip, bits=bits, max_examples=1, neighbour_share=1.0)
    clients = max(3, 2 ** (MODULUS_BITS - bits) - below)
    half, rng = 2 ** (bits - 1), np.random.default_rng(seed)
    steps = rng.integers(-half, half + 1, (clients, 30))
    steps[:, :10], steps[:, 10:20] = half - rng.integers(0, 3, 10), -half
    vectors = quantize(list(steps * secagg.step), clip, 2**bits)

    courier = Shares(clients)
    asked = cast(Any, [(None, None)] * clients)
    protocol = Protocol(secagg, asked, cast(Courier, courier), SimpleClientManager())
    state, nodes = protocol.state, set(range(clients))
    state.sampled_node_ids, state.active_node_ids = nodes, nodes
    state.threshold, state.mod_range = 1, 2**MODULUS_BITS
    state.nid_to_neighbours = dict.fromkeys(nodes, nodes)
    sums = [np.array([clients * 2**bits]), np.sum(vectors, axis=0)]
    masks = mask(SEED, state.mod_range, [(1,), (30,)])
    state.aggregate_ndarrays = [
        (part + clients * own) % state.mod_range for part, own in zip(sums, masks, strict=True)
    ]
    nothing = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([]), 1, {})
    state.legacy_results = [(cast(Any, None), nothing)]
    assert protocol.open_sum(nodes).tolist() == steps.sum(axis=0).tolist()
