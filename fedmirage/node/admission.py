"""Says how the connection of a node to its SuperLink stands, and why it is turned away.

Flower's node ends with a stack trace if it is not admitted, and without a reason if its key is
revoked while it runs. All its requests go through one object that tries them again
(`RetryInvoker`), so that is the place to look.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fedmirage.common.flower import require
from fedmirage.node.log import log

NO_KEY, NOT_ADMITTED = 2001, 2004  # what Flower's SuperLink calls these refusals
OWN_END = ("Locally", "Channel closed")  # gRPC's words for a request that this node has cancelled
MAKER = "_make_fleet_connection_retry_invoker"


class Admission:
    """Follows the requests of a node, and ends it with a sentence if they cannot succeed."""

    def __init__(self, superlink: str, key: str | None) -> None:
        self.superlink, self.key = superlink, key
        self.connected = self.lost = False
        self.end: Callable[[int], object] = os._exit  # Flower's threads would outlive an exception

    def follow(self, flower: ModuleType) -> None:
        """Look at every request of the module that talks to the SuperLink."""
        require(vars(flower), (MAKER,), "a node cannot say why it is turned away")
        make = getattr(flower, MAKER)

        def made(*arguments: Any, **options: Any) -> Any:
            invoker = make(*arguments, **options)
            gives_up, succeeds = invoker.should_giveup, invoker.on_success
            invoker.should_giveup = lambda error: (
                self.judge(error) or (not is_cut_off(error) and gives_up(error))
            )

            def succeed(state: Any) -> None:
                self.greet()
                succeeds(state)

            invoker.on_success = succeed
            return invoker

        setattr(flower, MAKER, made)

    def greet(self) -> None:
        """Say that the SuperLink answers, once and after every silence."""
        if not self.connected or self.lost:
            again = " again" if self.connected else ""
            log.info("connected%s to the SuperLink at %s", again, self.superlink)
        self.connected, self.lost = True, False

    def judge(self, error: Any) -> bool:
        """End the node if a request was refused for good; otherwise leave it to Flower."""
        code = error.code().name
        reason = explain(code, str(error.details()), self.superlink, self.key, self.connected)
        if reason:
            log.error("error: %s", reason)
            self.end(1)
        elif (code == "UNAVAILABLE" or is_cut_off(error)) and not self.lost:
            self.lost = True
            log.warning("the SuperLink at %s does not answer; trying again", self.superlink)
        return bool(reason)


def is_cut_off(error: Any) -> bool:
    """Whether the SuperLink ended while it had a request. Flower's own node would give up here."""
    own = str(error.details()).startswith(OWN_END)
    return error.code().name == "CANCELLED" and not own


def explain(code: str, details: str, superlink: str, key: str | None, connected: bool) -> str:
    """Say why a node is turned away, and what to do; empty if it may try again."""
    at = f"the SuperLink at {superlink}"
    if code == "UNAUTHENTICATED" and key:
        return (
            f"{at} has revoked this node's key ({key}), so the node ends; a revoked key is never"
            f" admitted again: make a new one with `fedmirage key NAME`, and have"
            " NAME.pub admitted"
        )
    if code == "UNAUTHENTICATED":
        return f"{at} does not know this node any more, perhaps since a restart; start it again"
    if code == "UNAVAILABLE" and "handshake failed" in details.lower():
        return (
            f"{at} and this node cannot agree on TLS; --root-certificates must be the certificate"
            f" of the authority that signed the SuperLink's ({details})"
        )
    if code != "FAILED_PRECONDITION" or connected:
        return ""
    number = find_number(details)
    if number == NO_KEY:
        return (
            f"{at} admits registered nodes only; write --auth-supernode-private-key FILE, with the"
            " private key whose public half is registered there"
        )
    if number == NOT_ADMITTED:
        return (
            f"{at} does not admit this node's key ({key}). If it is new, whoever runs the SuperLink"
            f" admits it with `fedmirage admit {Path(key or '').name}.pub`; if it was revoked, make"
            " another; if a node with this key runs or has just crashed, wait a minute"
        )
    return f"{at} refuses this node: {details}"


def find_number(details: str) -> int:
    """Read the number that Flower gives a refusal; 0 if there is none."""
    try:
        return int(json.loads(details)["code"])
    except (ValueError, TypeError, KeyError):
        return 0
