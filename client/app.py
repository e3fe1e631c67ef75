"""The Flower ClientApp.

Only one message of a secure round trains, so whatever needs torch is loaded when that
message arrives.
"""

import copy
from pathlib import Path

from flwr.app import Context, Error, Message
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from fedmirage.client.node.outgoing import write_down
from fedmirage.client.node.redaction import tell
from fedmirage.client.node.settings import read_settings
from fedmirage.client.secagg.mod import secure
from fedmirage.common.settings.config import RunConfig


def make_app(config: RunConfig | None = None, memory: Path | None = None) -> ClientApp:
    """Make a ClientApp for one configuration (simulation), or for the one that each message brings.

    The latter is how deployments work: the messages carry the run config.
    """

    def client_fn(context: Context) -> Client:
        from fedmirage.client.build import build_client

        settings = config or read_settings(context)
        return build_client(settings, context, memory, deployed=config is None).to_client()

    plain = config is not None and not config.secagg_params.active
    mods = [keep_details, *([] if plain else [secure(config, memory)])]
    return ClientApp(client_fn=client_fn, mods=mods if config else [write_down, *mods])


def keep_details(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Answer a message; of an exception only `tell` leaves the node. This is a mod of Flower's.

    A message that fails leaves no trace in the node's state.
    """
    before = copy.deepcopy(context.state)
    try:
        return call_next(message, context)
    except Exception as error:
        context.state = before
        reason = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, tell(error))
        return Message(reason, reply_to=message)


app = make_app()
