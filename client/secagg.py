"""Secure aggregation on the client: Flower's SecAgg+ mod, our masks, and a check of each request.

The server is not trusted with any single update, so every request is compared with the run's own
configuration. A plain request, other settings, too few clients, or both keys of one client are
refused with a sentence, and nothing is sent.
"""

from importlib import import_module
from logging import ERROR, WARNING
from typing import Any, cast

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common import log
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common import recorddict_compat as compat

from common.errors import FedmirageError, WireError
from common.secagg.masks import GENERATOR, MASKS, install, mask, quantize
from common.secagg.settings import LEAST, MODULUS_BITS, REFUSAL, SecAggOn
from common.settings.config import RunConfig, validate
from common.wire.figures import ERROR as WHY_NOT

install(import_module(secaggplus_mod.__module__), mask, quantize)


def secure(config: RunConfig | None = None) -> Mod:
    """Make the mod for one configuration (simulation), or for the one that each message brings.

    The latter is how deployments work: the messages carry the run config.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        settings = config or validate(context.run_config)
        if message.metadata.message_type != MessageType.TRAIN or not isinstance(
            settings.secagg_params, SecAggOn
        ):
            return call_next(message, context)

        def train(request: Message, state: Context) -> Message:
            try:
                reply = call_next(request, state)
            except Exception as error:  # its text may tell something of the data, so it stays here
                log(ERROR, "training failed: %s", error, exc_info=True)
                raise FedmirageError("its training failed; its own log says why") from None
            if (
                reason := compat.recorddict_to_fitres(reply.content, True).metrics.get(WHY_NOT)
            ) is not None:
                raise FedmirageError(str(reason))
            return reply

        try:
            stage = check_request(message, settings.secagg_params, settings.drawn)
            reply = secaggplus_mod(message, context, train)
        except (FedmirageError, ValueError, KeyError, TypeError) as error:
            log(WARNING, "this client takes no part in the round: %s", error)
            return Message(
                RecordDict({REFUSAL: ConfigRecord({"reason": str(error)})}), reply_to=message
            )
        if stage == Stage.SETUP:
            reply.content.config_records[RECORD_KEY_CONFIGS][MASKS] = GENERATOR
        return reply

    return mod


def check_request(message: Message, secagg: SecAggOn, drawn: int) -> str:
    """Return the stage that the server asks for, or refuse what this run does not allow."""
    if RECORD_KEY_CONFIGS not in message.content.config_records:
        raise WireError(
            "the server asks for a plain update, but this run has secure aggregation (secagg);"
            " nothing was sent"
        )
    request = message.content.config_records[RECORD_KEY_CONFIGS]
    stage = str(request.get(Key.STAGE))
    if stage == Stage.SETUP:
        check_setup(request, secagg, drawn)
    elif stage == Stage.UNMASK:
        active, dead = (
            set(cast(list[int], request[key]))
            for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
        )
        if active & dead:
            raise WireError(
                "the server asks for both keys of a client, which would open its update; nothing"
                " was sent"
            )
        if len(active) < LEAST:
            raise WireError(
                f"the server wants to open a sum of {len(active)} clients, and at least {LEAST} are"
                " needed to hide one"
            )
    return stage


def check_setup(request: ConfigRecord, secagg: SecAggOn, drawn: int) -> None:
    """Require the settings that follow from the run's configuration, and masks like ours."""
    theirs = request.get(MASKS, "Flower's own generator")
    if theirs != GENERATOR:
        raise WireError(
            f"the server's masks come from {theirs!r}, this client's from {GENERATOR!r}; run the"
            " same version on both"
        )
    clients = cast(int, request[Key.SAMPLE_NUMBER])
    if clients < secagg.least(drawn):
        raise WireError(
            f"the server wants the sum of {clients} clients; of {drawn} there must be"
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
