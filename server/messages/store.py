"""Keeps the replies of a round: in memory up to a budget, and all further ones in files."""

import contextlib
import ctypes
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.common import FitRes, Parameters

from fedmirage.common.wire.filed import write_tensors
from fedmirage.common.wire.payload import size

FOLDER = "replies"  # in the folder of a run, while a round goes on


class ReplyStore:
    """The replies of one round, in the order in which they arrive.

    A strategy cannot tell them apart: the arrays of a reply in a file are read when they are
    needed. Which replies are in files depends on when they came, and changes no bit of the result.
    """

    def __init__(self, folder: Path, budget: int) -> None:
        self.folder, self.budget = folder / FOLDER, budget  # in bytes; 0 keeps all in memory
        self.clear()

    def keep(self, reply: FitRes) -> FitRes:
        """Return the reply as it is, or with its arrays in a file."""
        length = size(reply.parameters)
        if not self.budget or self.held + length <= self.budget:
            self.held += length
            return reply
        self.filed += 1
        path = self.folder / f"{self.filed:06d}.safetensors"
        tensors: Any = write_tensors(path, reply.parameters.tensors)
        return replace(reply, parameters=Parameters(tensors, reply.parameters.tensor_type))

    def clear(self) -> None:
        """Remove the files; also those that a killed run has left."""
        self.held = self.filed = 0
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError, AttributeError):  # other systems have no such function
            ctypes.CDLL(None).malloc_trim(0)  # glibc would keep what the replies have taken
