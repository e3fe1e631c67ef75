"""The Flower ClientApp. Of the four messages of a secure round only one trains: what needs torch is
loaded when it comes."""

from pathlib import Path

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp

from client.secagg import secure
from common.settings.config import RunConfig, validate


def make_app(config: RunConfig | None = None, memory: Path | None = None) -> ClientApp:
    """A ClientApp for one configuration (simulation), or for whatever run config the messages bring
    (deployment)."""

    def client_fn(context: Context) -> Client:
        from client.build import build_client

        return build_client(config or validate(context.run_config), context, memory).to_client()

    return ClientApp(client_fn=client_fn, mods=[secure(config)])


app = make_app()
