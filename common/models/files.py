"""Saves a model in a file with everything that is needed to use it, and loads such a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field, TypeAdapter
from torch import Tensor

from fedmirage.common.data.batches import normalise, standardise
from fedmirage.common.data.catalogue.params import DATASETS
from fedmirage.common.data.files.inputs import InputReader
from fedmirage.common.data.reading import Reading, describe_reading
from fedmirage.common.data.set import NamedBy, Task
from fedmirage.common.errors import DataError
from fedmirage.common.method import NETWORK
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.common.settings.language import resolve_line, write
from fedmirage.common.settings.project import project
from fedmirage.common.wire.files import read_arrays, write_arrays
from fedmirage.common.wire.manifest import Manifest, from_arrays
from fedmirage.common.wire.payload import Array

if TYPE_CHECKING:
    from fedmirage.common.run import Run

Count = Annotated[int, Field(ge=0, le=2**53)]
Numbers = tuple[Annotated[float, Field(allow_inf_nan=False)], ...]


@dataclass(frozen=True)
class ModelFacts:
    """What a model file holds beside the weights."""

    model: str  # the line that names the network
    outputs: Count  # the classes first, then those that a method has added to the head
    parameters: Count  # how many numbers the whole network has, batch norm's statistics included
    classes: tuple[str, ...]
    task: Task
    shape: tuple[Count, ...]  # of one input; (channels, height, width) of a picture
    mean: Numbers  # per channel; of pixels in [0, 1] where there are pictures
    std: Numbers
    methods: str
    round: Count
    version: str  # of fedmirage
    # The parts in the file. "features" and "classifier" are the network; a method may add others.
    parts: tuple[str, ...] = NETWORK
    pictures: bool = True  # whether the inputs are pictures
    reading: Reading | None = None  # how files became inputs; None in files of earlier versions
    named_by: NamedBy = "numbers"  # where the names of the classes come from
    schema: str = ""  # of a table: what its columns mean (`Schema.text`)

    def normalise(self, images: Tensor) -> Tensor:
        """Normalise inputs, (batch, channels, ...), for the network: bytes of pictures, or floats.

        NaN stands for a value that is missing.
        """
        dtype = torch.uint8 if self.pictures else torch.float32
        if images.dtype != dtype or tuple(images.shape[1:]) != self.shape:
            raise DataError(
                f"images are {images.dtype} {tuple(images.shape)}; this model takes {dtype} of"
                f" (batch, {', '.join(map(str, self.shape))})"
            )
        change = normalise if self.pictures else standardise
        return change(images, self.mean, self.std)

    def read(self, paths: str | Path | Sequence[str | Path], encoder: str = "") -> Tensor:
        """Read files as the run read its own, and normalise them: what the network takes.

        They are pictures and folders of them, arrays (.npz, .npy), and rows (.csv). A network on
        embeddings takes vectors, or what its encoder makes of texts or pictures; no file has that
        imported, so name it in `encoder`.
        """
        listed = [paths] if isinstance(paths, str | Path) else paths
        values = self.open_reader(encoder).read(listed).values
        return self.normalise(torch.from_numpy(values))

    def open_reader(self, encoder: str = "") -> InputReader:
        """Make what reads the inputs of this model."""
        return InputReader(self.reading, self.shape, self.pictures, encoder, self.schema)

    def read_as(self, dataset: str) -> "ModelFacts":
        """Replace how inputs are read by what a `dataset` line says; nothing is read yet."""
        chosen = resolve_line(dataset, DATASETS, "dataset")
        return replace(self, reading=describe_reading(chosen))

    @classmethod
    def parse(cls, found: Mapping[str, Any], path: str | Path) -> "ModelFacts":
        """Read the facts of a file, or raise a DataError that says why it fails."""
        try:
            # JSON has lists where the facts have tuples.
            facts = TypeAdapter(cls).validate_json(json.dumps(found), strict=True)
            if not facts.shape or not len(facts.mean) == len(facts.std) == facts.shape[0]:
                raise ValueError("it has not one mean and one std for every channel")
            return facts
        except ValueError:
            version = found.get("version")
            writer = f"fedmirage {version}" if isinstance(version, str) else "another program"
            raise DataError(
                f"{str(path)!r} does not say which network its weights belong to; it was written by"
                f" {writer[:40]}, and this is {project()['project']['version']}: use the version"
                " that wrote it, run it again, or load its arrays with safetensors"
            ) from None


def collect_facts(run: "Run", parts: tuple[str, ...], round_number: int = 0) -> ModelFacts:
    """Collect the facts about the model of a run, of which a file holds some parts."""
    config, data, classes = run.config, run.dataset, run.classes
    return ModelFacts(
        model=write(config.model_params),
        outputs=classes + sum(method.extra_outputs(classes) for method in config.method_list),
        parameters=run.manifest.size,
        classes=data.classes,
        task=data.task,
        shape=data.shape,
        pictures=data.pictures,
        mean=data.mean,
        std=data.std,
        methods=config.methods,
        round=round_number,
        version=project()["project"]["version"],
        parts=parts,
        reading=describe_reading(config.dataset_list),
        named_by=data.named_by,
        schema=data.schema,
    )


def save_model(
    named: Mapping[str, Array], path: str | Path, facts: ModelFacts, private: bool = False
) -> None:
    """Write weights by name, with the facts that are needed to use them."""
    write_arrays(path, named, asdict(facts), private)


def read_facts(path: str | Path) -> ModelFacts:
    """Read the facts of a model file, whatever parts of a model it holds."""
    return ModelFacts.parse(read_arrays(path)[1], path)


def load_model(path: str | Path, own: str = "") -> tuple[Model, ModelFacts]:
    """Load the network of a model file, in evaluation mode on the CPU, and the facts about it.

    A file never has anything imported: if its weights belong to somebody's own network, the caller
    names that network in `own`.

    The first `len(facts.classes)` outputs are the classes. Parts that a method added to the network
    are not needed for predictions and are left out. A file that lacks a part of the network is
    refused, because that part has stayed with the clients.
    """
    named, found = read_arrays(path)
    facts = ModelFacts.parse(found, path)
    if not set(NETWORK) <= set(facts.parts):
        raise DataError(
            f"{str(path)!r} holds only {' and '.join(facts.parts)} of a {facts.model}, which is"
            f" what methods={facts.methods!r} shares; every client keeps the rest: load the arrays"
            " with safetensors"
        )
    brought = ":" in facts.model.partition("(")[0]
    line, extra = own if brought else facts.model, facts.outputs - len(facts.classes)
    if brought and not own:
        raise DataError(
            f"{str(path)!r} holds weights of {facts.model!r}, which is not part of fedmirage, and a"
            f" file has nothing imported; if you trust that module, add model={facts.model!r}"
            " (--model on the command line)"
        )
    # Without memory at first, since false facts may be of a huge network. Somebody's own is named
    # by the caller, and may not know how to be made without memory.
    with torch.device("cpu" if brought else "meta"):
        manifest = Manifest.of(build(line, facts.shape, len(facts.classes), extra))
    if missing := [name for name in manifest.names if name not in named]:
        raise DataError(f"{str(path)!r} lacks {missing[0]!r} of a {line}; write it again")
    arrays = [named[name] for name in manifest.names]
    manifest.check(arrays)
    model = build(line, facts.shape, len(facts.classes), extra)
    from_arrays(model, arrays)
    return model.eval(), facts
