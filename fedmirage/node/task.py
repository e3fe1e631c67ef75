"""Answers one message, in a process of its own.

    python -m fedmirage.node.task own|any adaptive|flower ADDRESS TOKEN PARENT

does it in a new Python; a template (template.py) forks processes that do it.
"""

import sys
from collections.abc import Mapping
from logging import WARNING

from fedmirage.node.log import open_log
from fedmirage.node.signals import end_silently


def answer(own: Mapping[str, str] | None, address: str, token: str, parent: str) -> None:
    """Fetch the message of a task from the SuperNode and answer it.

    A node that runs its own code only passes the checksums of that code. Otherwise nothing of the
    app may be imported here, because its code comes with the run.
    """
    from flwr.supernode.runtime.run_clientapp import run_clientapp

    if own is not None:
        from fedmirage.node.gate import Gate

        Gate(own).guard()
    run_clientapp(
        address, token, insecure=True, parent_pid=int(parent), runtime_dependency_install=False
    )


def prepare(code: str, waiting: str) -> None:
    """Make this process ready for messages.

    A node that runs any code must find nothing of the app loaded, because the code comes with the
    run. What belongs to the app and was used to prepare is therefore forgotten again.
    """
    open_log(WARNING)
    if waiting == "adaptive":
        from fedmirage.common.flower import fetch_promptly

        fetch_promptly()
    if code == "any":
        for name in [name for name in sys.modules if name.partition(".")[0] == "fedmirage"]:
            del sys.modules[name]


def checksums(code: str) -> Mapping[str, str] | None:
    """Return the checksums of the code that is installed here, for a node that runs no other."""
    if code == "any":
        return None
    from fedmirage.runtimes.bundle import own_code

    return own_code()


if __name__ == "__main__":
    end_silently()
    prepare(*sys.argv[1:3])
    answer(checksums(sys.argv[1]), *sys.argv[3:])
