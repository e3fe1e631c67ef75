"""What a node says when something fails: a sentence, and nothing of its data.

Flower sends the text of an exception to the server. Such a text may quote a label, a path or a
value, so it stays in the node's own log. Only sentences about the run's settings and messages
travel.
"""

from logging import ERROR

from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import log

from fedmirage.common.errors import DataError, FedmirageError

UNUSABLE_DATA = "its data cannot be used; its own log says why"
FAILURE = "its code raised an exception; its own log says why"


def keep_details(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Answer a message; of an exception only `tell` leaves the node. This is a mod of Flower's."""
    try:
        return call_next(message, context)
    except Exception as error:
        raise FedmirageError(tell(error)) from None


def tell(error: Exception) -> str:
    """Say what the server may know of an error, and write the rest into the node's log."""
    if isinstance(error, FedmirageError) and not isinstance(error, DataError):
        return str(error)
    sentence = UNUSABLE_DATA if isinstance(error, DataError) else FAILURE
    # A person can correct data by the sentence alone; anything else needs the place in the code.
    log(ERROR, "%s: %s", sentence, error, exc_info=not isinstance(error, DataError))
    return sentence
