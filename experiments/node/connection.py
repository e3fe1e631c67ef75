"""Flower's SuperNode with adaptive waiting.

    python -m experiments.node.connection ARGUMENTS...

takes the arguments of `flower-supernode` and is that program, but for its pace.
"""

import sys

from flwr.supernode import start_client_internal as flower
from flwr.supernode.cli import flower_supernode

from common.errors import FedmirageError
from common.flower import fetch_promptly
from experiments.node.waiting import set_pace


def main() -> None:
    """Set the pace, and become the SuperNode."""
    try:
        set_pace(flower, "_push_messages")  # called after each message that came
        fetch_promptly()
    except FedmirageError as error:
        sys.exit(f"error: {error}")
    sys.argv[0] = "flower-supernode"  # Flower looks there for which of its programs it is
    flower_supernode()


if __name__ == "__main__":
    main()
