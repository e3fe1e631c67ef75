"""Checks the settings with which the server begins a try of a secure round."""

from typing import Any, cast

from flwr.app import ConfigRecord
from flwr.common.secure_aggregation.secaggplus_constants import Key

from fedmirage.common.errors import WireError
from fedmirage.common.secagg.masks import GENERATOR, MASKS
from fedmirage.common.secagg.settings import MODULUS_BITS, SecAggOn


def check_setup(request: ConfigRecord, secagg: SecAggOn, drawn: int) -> None:
    """Require the settings that follow from the run's configuration, and masks like ours."""
    theirs = request.get(MASKS, "Flower's own generator")
    if theirs != GENERATOR:
        raise WireError(
            f"the server's masks come from {theirs!r}, this client's from {GENERATOR!r}; run the"
            " same version on both"
        )
    clients = cast(int, request[Key.SAMPLE_NUMBER])
    if not secagg.least(drawn) <= clients <= drawn:
        raise WireError(
            f"the server wants the sum of {clients} clients; of {drawn} there must be at least"
            f" {secagg.least(drawn)} to hide one"
        )
    plan = secagg.key_plan(clients)
    expected: dict[str, Any] = {
        Key.SHARE_NUMBER: plan.shares,
        Key.THRESHOLD: plan.threshold,
        Key.CLIPPING_RANGE: secagg.clip,
        Key.TARGET_RANGE: 2**secagg.bits,
        Key.MOD_RANGE: 2**MODULUS_BITS,
        Key.MAX_WEIGHT: 1.0,
    }
    for key, value in expected.items():
        if request[key] != value:
            raise WireError(
                f"the server's {key} is {request[key]!r}, but secagg gives {value!r}; run the same"
                " version on both"
            )
