"""Asks a node about itself, and reads what it says."""

from collections.abc import Mapping
from typing import Any

from flwr.app import Message
from flwr.common import GetPropertiesIns, MessageTypeLegacy, Scalar
from flwr.compat.common import recorddict_compat as compat

from fedmirage.common.errors import WireError
from fedmirage.common.site_names import RULE, SITE, is_site_name
from fedmirage.common.wire.metrics import ERROR
from fedmirage.server.messages.replies import clean


def ask_for_properties(node: int, told: Mapping[str, Scalar]) -> Message:
    """Make the message that asks a node about itself, or to work before its first round."""
    content = compat.getpropertiesins_to_recorddict(GetPropertiesIns({**told}))
    return Message(content, node, MessageTypeLegacy.GET_PROPERTIES)


def read_name(properties: Mapping[str, Scalar]) -> str:
    """Read the name that a node gives its site; empty if it gives none."""
    name = properties.get(SITE, "")
    if name != "" and not is_site_name(name):
        raise WireError(f"it calls its site {clean(repr(name))}; {RULE}")
    return str(name)


def read_properties(content: Any) -> dict[str, Scalar]:
    """Read what a node says about itself."""
    properties = compat.recorddict_to_getpropertiesres(content).properties
    if ERROR in properties:
        raise WireError(str(properties[ERROR]))
    return properties
