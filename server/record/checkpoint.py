"""After every round, all that the server needs to continue is in one file, written in one step.

Arrays are stored as they are, everything else as JSON in the header. Nothing is pickled, because
reading a pickle can run any program.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from flwr.common import Scalar
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from fedmirage.common.data.tables.statistics import Scale
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.wire.files import read_arrays, write_arrays
from fedmirage.common.wire.payload import Array, Arrays
from fedmirage.common.wire.statistics import NORMALISATION

FILE = "checkpoint.safetensors"
Whole = Annotated[int, Field(ge=0)]
Numbers = tuple[Annotated[float, Field(allow_inf_nan=False)], ...]
COUNTED = ("best_validation_loss", "waited", "samples")  # never null in `progress`


def _check_progress(progress: dict[str, Any]) -> dict[str, Any]:
    for name, value in progress.items():
        if not isinstance(value, int | float) and (value is not None or name in COUNTED):
            raise ValueError(f"its {name!r} is {value!r}")
    return progress


@dataclass
class Checkpoint:
    """The state of a run after a round."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    round: Whole
    shared: Arrays  # the model that the next round sends out
    # Identifies the clients' memories of this run, and names their folder.
    token: Annotated[str, Field(pattern=r"^\w+$")]
    # "token@round" of the run from which this one started
    parent: Annotated[str, Field(pattern=r"^(\w+@\d+)?$")] = ""
    strategy: dict[str, Any] = field(default_factory=dict)  # the methods' state
    # best validation etc., plain JSON
    progress: Annotated[dict[str, Any], AfterValidator(_check_progress)] = field(
        default_factory=dict
    )
    # the last round in which each client's reply counted, by partition
    counted: dict[str, Whole] | None = None
    # mean and deviation of every channel, where the clients have formed them of their sums
    scale: tuple[Numbers, Numbers] | None = None

    def address(self, round_number: int) -> dict[str, Scalar]:
        """Tell clients in a message which round of which run it belongs to."""
        return {**self.identity, "round": round_number, "parent": self.parent}

    @property
    def identity(self) -> dict[str, Scalar]:
        """What every message says about the run.

        That is its name, and the inputs' normalisation if all clients have formed it.
        """
        scale = {NORMALISATION: Scale(*self.scale).to_bytes()} if self.scale else {}
        return {"token": self.token, **scale}

    def write(self, path: Path) -> None:
        """Write everything in one step, so that a reader sees the old file or the new one."""
        arrays: dict[str, Array] = {}
        header = {"round": self.round, "token": self.token, "parent": self.parent}
        header |= {"progress": self.progress, "counted": self.counted}
        header |= {"scale": self.scale} if self.scale else {}
        header |= {
            name: _strip(getattr(self, name), name, arrays) for name in ("shared", "strategy")
        }
        write_arrays(path, arrays, header, private=True)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; raise a sentence if there is none or it is damaged."""
    if not path.parent.exists():
        raise FedmirageError(f"there is no run in {path.parent}; give the folder of a run")
    if not path.exists():
        raise FedmirageError(
            f"there is no checkpoint {path}, because no round was finished; start the run again"
            " with its first command, without resume"
        )
    try:
        arrays, header = read_arrays(path)
        found = {
            name: _fill(value, arrays) if name in ("shared", "strategy") else value
            for name, value in header.items()
        }
        return TypeAdapter(Checkpoint).validate_python(found)
    except (DataError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FedmirageError(f"the checkpoint {path} cannot be read: {error}") from None


def _strip(value: Any, where: str, arrays: dict[str, Array]) -> Any:
    """Replace every array inside a value by its name in the file."""
    if isinstance(value, np.ndarray):
        arrays[where] = np.ascontiguousarray(value).reshape(value.shape)
        return {"array": where}
    if isinstance(value, dict):
        items = value.items()
        return {"dict": {str(key): _strip(item, f"{where}/{key}", arrays) for key, item in items}}
    if isinstance(value, list | tuple):
        numbered = [(f"{index:04d}", item) for index, item in enumerate(value)]
        return {"list": [_strip(item, f"{where}/{index}", arrays) for index, item in numbered]}
    return {"plain": value}


def _fill(value: Any, arrays: dict[str, Array]) -> Any:
    """Put the arrays back."""
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {key: _fill(item, arrays) for key, item in content.items()}
    return [_fill(item, arrays) for item in content] if kind == "list" else content
