"""Stands where Flower installs the code of a run, so that a node runs its own code only.

The bundle that the run brings is compared with that code, and never installed, so nothing in it is
ever executed. A run that brings other code gets a sentence for an answer: its numbers would not be
those of the code that was submitted.
"""

import zipfile
from collections.abc import Callable, Mapping
from logging import ERROR
from typing import Any

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common import log
from flwr.common.constant import ErrorCode
from flwr.supernode.runtime import run_clientapp as flower

from fedmirage.client.node.outgoing import write_down
from fedmirage.common.flower import require
from fedmirage.runtimes.bundle import bundled_code, bundled_version, own_version

SHOWN = 3  # names of files in a sentence


class Gate:
    """Stands where Flower would install and load the code of the run."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self.own = own  # the checksums of the code that this process runs
        self.refusal = "the run brought no code to compare with this node's own"

    def examine(self, bundle: bytes, **_: Any) -> None:
        """Compare a bundle with this node's own code, in place of installing it."""
        try:
            versions = own_version(), bundled_version(bundle)
            self.refusal = explain(self.own, bundled_code(bundle), *versions)
        except (zipfile.BadZipFile, EOFError, ValueError):  # a file that is no TOML or no UTF-8
            self.refusal = "the run's bundle is damaged"

    def loader(self, **_: Any) -> Callable[..., ClientApp]:
        """Return what loads this node's own app, or one that refuses everything."""
        return self.load

    def load(self, *_: str) -> ClientApp:
        """Load the app, whatever name the run gives it."""
        if self.refusal:
            log(ERROR, "a run is refused: %s", self.refusal)
            return Refusal(self.refusal)
        from fedmirage.client.app import app

        return app

    def guard(self) -> None:
        """Take the place of Flower's functions; fails if this Flower has no such functions."""
        names = ("install_from_fab", "get_load_client_app_fn")
        require(vars(flower), names, "a node cannot insist on its own code")
        for name, own in zip(names, (self.examine, self.loader), strict=True):
            setattr(flower, name, own)


def explain(own: Mapping[str, str], brought: Mapping[str, str], here: str, there: str) -> str:
    """Say which code differs, and of which versions it is; empty if none does."""
    names = sorted(
        name for name in own.keys() | brought.keys() if own.get(name) != brought.get(name)
    )
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    other = f"fedmirage {there}" if there != here else "other code of the same version"
    return (
        f"this node runs its own code only, fedmirage {here}, and the run brought {other}: it"
        f" differs in {', '.join(names[:SHOWN])}{more}; upgrade the older of the two, or submit the"
        " run from the release that the nodes have"
    )


class Refusal(ClientApp):
    """An app that answers every message with the reason why there is no other answer."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer with the reason, which is written down like all that leaves."""

        def refuse(message: Message, _: Context) -> Message:
            return Message(Error(ErrorCode.INVALID_FAB, self.reason), reply_to=message)

        return write_down(message, context, refuse)
