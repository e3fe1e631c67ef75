"""The process from which tasks are forked, with everything loaded that takes long to load.

    python -m fedmirage.node.template own|any adaptive|flower

reads one task per line of standard input, forks a process for each, and ends with its input. So
every message still has a process of its own, as with Flower, but that process does not spend
seconds on importing torch. A process may only be forked safely before it has threads of gRPC or a
CUDA context. Hence the template never opens a channel and never touches a device, and it is a
process of its own that does nothing else.
"""

import gc
import importlib
import json
import os
import signal
import sys
from typing import IO

import numpy

from fedmirage.node.signals import end_silently
from fedmirage.node.task import answer, checksums, prepare

# What every client uses. `torch._dynamo` is what torch's optimisers import when they first step.
LIBRARIES = (
    "torch",
    "torch._dynamo",
    "safetensors.torch",
    "pydantic",
    "flwr.client",
    "flwr.clientapp",
    "flwr.supernode.runtime.run_clientapp",
    "grpc.experimental",  # which a first channel imports
)
# What is loaded of the code that is installed here, with all that it imports.
OWN = (
    "fedmirage.client.app",
    "fedmirage.client.build",
    "fedmirage.client.methods",
    "fedmirage.node.gate",
)


def load(code: str) -> None:
    """Load what tasks need; the app knows how to load torchvision beside a CPU-only torch."""
    for name in (*LIBRARIES, *(OWN if code == "own" else ())):
        importlib.import_module(name)
    importlib.import_module("fedmirage.common.models.vision").torchvision()


def await_task(requests: IO[bytes]) -> list[str] | None:
    """Fork a process per request; return the request in that process, and None in the template.

    The template ignores Ctrl-C, which reaches every process of a terminal: it ends with its input.
    Nobody waits for the tasks' exit codes, so that the system itself clears them away.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # so that a task's collections do not copy what it shares with the template
    for line in requests:
        if os.fork() == 0:
            end_silently()
            signal.signal(signal.SIGCHLD, children)
            become_independent()
            return list(json.loads(line))
    return None


def become_independent() -> None:
    """Undo what a forked process would share with its siblings, and a new one would not.

    Python's own `random` does so by itself, and torch starts from a fixed seed in either case.
    """
    numpy.random.seed()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)


def main(code: str, waiting: str) -> None:
    """Be the template, and in forked processes answer the message of a task."""
    end_silently()
    own = checksums(code)  # now, because the files may change while their code is loaded
    load(code)
    prepare(code, waiting)
    request = await_task(sys.stdin.buffer)
    if request is not None:
        answer(own, *request)


if __name__ == "__main__":
    main(*sys.argv[1:])
