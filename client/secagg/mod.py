"""Secure aggregation on the client: Flower's SecAgg+ mod with our keys, and a check of requests.

The server is not trusted with any single update, so every request is compared with the run's own
configuration, with what the server said before, and with what the other clients say. Whatever does
not fit is refused with a sentence, and nothing is sent.
"""

from logging import WARNING
from pathlib import Path

from cryptography.exceptions import InvalidTag
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common import log
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.node.redaction import tell
from fedmirage.client.secagg.participant import Participant
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import memory_folder
from fedmirage.common.secagg.settings import REFUSAL, SecAggOn
from fedmirage.common.settings.config import RunConfig, validate
from fedmirage.common.wire.metrics import ERROR as WHY_NOT


def secure(config: RunConfig | None = None, memory: Path | None = None) -> Mod:
    """Make the mod for one configuration (simulation), or for the one that each message brings.

    The latter is how deployments work: the messages carry the run config.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        settings = config or validate(context.run_config)
        if message.metadata.message_type != MessageType.TRAIN or not isinstance(
            secagg := settings.secagg_params, SecAggOn
        ):
            return call_next(message, context)

        def train(request: Message, state: Context) -> Message:
            try:
                reply = call_next(request, state)
            except Exception as error:  # its text may tell something of the data, so it stays here
                raise FedmirageError(tell(error)) from None
            if (
                reason := compat.recorddict_to_fitres(reply.content, True).metrics.get(WHY_NOT)
            ) is not None:
                raise FedmirageError(str(reason))
            return reply

        try:
            folder = memory_folder(context, memory)
            return Participant(message, context, settings, secagg, folder, train).answer()
        except (FedmirageError, ValueError, KeyError, TypeError, InvalidTag) as error:
            readable = isinstance(error, FedmirageError | ValueError)
            reason = str(error) if readable else f"the server's request is malformed ({error!r})"
            log(WARNING, "this client takes no part in the round: %s", reason)
            return Message(
                RecordDict({REFUSAL: ConfigRecord({"reason": reason})}), reply_to=message
            )

    return mod
