"""The Flower ServerApp."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedmirage.common.flower import fetch_as_configured
from fedmirage.common.settings.config import RunConfig, validate
from fedmirage.server.interruption import heard_first
from fedmirage.server.refusal import in_a_sentence
from fedmirage.server.run import run


def make_app(config: RunConfig | None = None) -> ServerApp:
    """Make a ServerApp for a given configuration, or else for the run config that Flower passes."""
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        with in_a_sentence(), heard_first():
            fetch_as_configured()
            run(grid, config or validate(context.run_config))

    return server_app


app = make_app()
