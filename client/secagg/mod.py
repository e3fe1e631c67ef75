"""Secure aggregation on the client, as a mod of Flower's: it answers every request to train.

The server is not trusted with any single update, so every request is compared with the run's own
configuration, with what the server said before, and with what the other clients say. Whatever does
not fit is refused with a sentence, and nothing is sent. With secagg=flower, Flower's mod answers.
"""

from logging import WARNING
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common import log
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.node.redaction import tell
from fedmirage.client.node.settings import read_settings
from fedmirage.client.secagg.participant import Participant
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import memory_folder
from fedmirage.common.secagg.protocol import REFUSAL, RefusalError
from fedmirage.common.secagg.settings import SecAggFlower, SecAggOn
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.metrics import ERROR as WHY_NOT


def secure(config: RunConfig | None = None, memory: Path | None = None) -> Mod:
    """Make the mod for one configuration (simulation), or for the one that each message brings.

    The latter is how deployments work: the messages carry the run config.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        settings = config or read_settings(context)
        secagg = settings.secagg_params
        if message.metadata.message_type != MessageType.TRAIN or not secagg.active:
            return call_next(message, context)
        if isinstance(secagg, SecAggFlower):
            return secaggplus_mod(message, context, only_trained(call_next))
        assert isinstance(secagg, SecAggOn)
        try:
            folder = memory_folder(context, memory)
            train = only_trained(call_next)
            return Participant(message, context, settings, secagg, folder, train).answer()
        except (FedmirageError, ValueError, KeyError, TypeError) as error:
            readable = isinstance(error, FedmirageError)
            reason = str(error) if readable else f"the server's request is malformed ({error!r})"
            log(WARNING, "this client takes no part in the round: %s", reason)
            told = error.told if isinstance(error, RefusalError) else {}
            refusal = ConfigRecord({"reason": reason, **told})
            return Message(RecordDict({REFUSAL: refusal}), reply_to=message)

    return mod


def only_trained(call_next: ClientAppCallable) -> ClientAppCallable:
    """Let a client train; raise the reason if it did not, so that nothing else is masked."""

    def train(request: Message, context: Context) -> Message:
        try:
            reply = call_next(request, context)
        except Exception as error:  # its text may tell something of the data, so it stays here
            raise FedmirageError(tell(error)) from None
        result = compat.recorddict_to_fitres(reply.content, True)
        if (reason := result.metrics.get(WHY_NOT)) is not None:
            raise FedmirageError(str(reason))
        return reply

    return train
