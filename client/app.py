"""The Flower ClientApp.

Only one message of a secure round trains, so whatever needs torch is loaded when that
message arrives.
"""

from pathlib import Path

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp

from fedmirage.client.node.redaction import keep_details
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
    return ClientApp(client_fn=client_fn, mods=mods)


app = make_app()
