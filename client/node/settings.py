"""Reads the settings of a run on a deployed node, which imports only what its owner lists."""

from flwr.app import Context

from fedmirage.common.errors import FedmirageError
from fedmirage.common.methods import METHODS, list_own
from fedmirage.common.own_code import require_allowed
from fedmirage.common.settings.config import RunConfig, validate
from fedmirage.common.settings.language import parse


def read_settings(context: Context) -> RunConfig:
    """Read the run config that a message brings; refuse methods that are not for this node.

    Declarations are imported to read them, so the line is checked before.
    """
    line = str(context.run_config.get("methods", ""))
    for name in (call.name for call in parse(line, "methods")):
        if name not in METHODS:
            raise FedmirageError(
                f"this node has no method called {name!r}; its owner installs the package that"
                " provides it, and lists its module in allow="
            )
    require_allowed(list_own(line), str(context.node_config.get("allow", "")))
    return validate(context.run_config)
