"""Exports a trained model for other programs: one graph from raw inputs to the classes' logits.

Normalisation is part of the graph, outputs that a method has added are not. Nothing is written
unless what was exported gives the answers of the model, for batches of several sizes.
"""

from __future__ import annotations

import io
import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.models.files import ModelFacts
from fedmirage.common.seeds import torch_generator
from fedmirage.show.words import muted
from fedmirage.trained.model import TrainedModel

INPUT, OUTPUT, FACTS = "inputs", "logits", "fedmirage.json"
CHECKED = (1, 2, 5)  # sizes of the batches on which answers are compared
TOLERANCE = 1e-4  # of logits; other programs add up in another order
ADDED = "pip install 'fedmirage[export]'"


class ExportedNetwork(nn.Module):
    """From inputs as they are read from files, (batch, channels, ...), to one logit per class."""

    scale: Tensor
    shift: Tensor

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        facts = model.facts
        self.network, self.classes = model.network, len(facts.classes)
        mean, std = (torch.tensor(one, dtype=torch.float64) for one in (facts.mean, facts.std))
        scale = 1 / (std * 255 if facts.pictures else std)
        sides = (1, -1, *[1] * (len(facts.shape) - 1))
        self.register_buffer("scale", scale.float().view(sides))
        self.register_buffer("shift", (-mean / std).float().view(sides))

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalise and classify; a missing value (NaN) becomes the mean."""
        values = inputs.to(torch.float32) * self.scale + self.shift
        values = torch.where(torch.isnan(values), torch.zeros_like(values), values)
        logits: Tensor = self.network(values)
        return logits[:, : self.classes]


def export(model: TrainedModel, kind: str, path: Path) -> Path:
    """Write a model as "onnx" or "torch-export"; refuse one that the format cannot express."""
    if kind not in FORMATS:
        raise ConfigurationError(f"to={kind!r}: write one of {', '.join(FORMATS)}")
    if path.is_dir():
        raise ConfigurationError(f"out={str(path)!r} is a folder; name a file")
    network = ExportedNetwork(model).eval()
    content, ask = FORMATS[kind](network, model.facts)
    for size in CHECKED:
        given = make_inputs(model.facts, size)
        with torch.inference_mode():
            wanted = model.compute_logits(given.numpy())
        found = attempt(kind, partial(ask, given))
        if found.shape != wanted.shape or not torch.allclose(
            found.double(), wanted, atol=TOLERANCE, rtol=TOLERANCE
        ):
            raise FedmirageError(
                f"what was exported to {kind} gives other answers than the model for a batch of"
                f" {size}, so nothing was written; the network may draw at random or depend on the"
                " size of the batch: correct its forward()"
            )
    write_whole(path, content)
    return path


def describe(facts: ModelFacts) -> dict[str, Any]:
    """Say what a program needs to know to use the file."""
    how = facts.reading
    kind = "uint8 from 0 to 255" if facts.pictures else "float32, NaN where a value is missing"
    resized = (
        f"resized to {how.size}x{how.size} (bilinear, antialiased)"
        if how and how.size
        else "as they are in their files"
    )
    single = facts.task == "single-label"
    return {
        "classes": list(facts.classes),
        "task": facts.task,
        "inputs": f"{INPUT}: {kind}, of shape (batch, {', '.join(map(str, facts.shape))})",
        "reading": f"pictures {resized}" if facts.pictures else "not normalised",
        "encoder": how.encoder if how else "",
        "outputs": f"{OUTPUT}: (batch, {len(facts.classes)}); their"
        f" {'softmax' if single else 'sigmoid'} gives probabilities",
        "methods": facts.methods,
        "round": facts.round,
        "version": facts.version,
    }


def make_inputs(facts: ModelFacts, size: int) -> Tensor:
    """Draw inputs of the kind that a model takes."""
    generator = torch_generator(0, "export", size)
    shape = (size, *facts.shape)
    if facts.pictures:
        return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    sides = (1, -1, *[1] * (len(facts.shape) - 1))
    mean, std = (torch.tensor(one).view(sides) for one in (facts.mean, facts.std))
    return mean + std * torch.randn(shape, generator=generator)


Ask = Callable[[Tensor], Tensor]  # what was exported, as a function


def to_torch(network: ExportedNetwork, facts: ModelFacts) -> tuple[bytes, Ask]:
    """Export with torch.export, for programs with torch; the facts are in the file, too."""
    program = trace(network, facts, "torch-export")
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={FACTS: json.dumps(describe(facts))})
    exported = program.module()
    return file.getvalue(), lambda inputs: exported(inputs)


def to_onnx(network: ExportedNetwork, facts: ModelFacts) -> tuple[bytes, Ask]:
    """Export to ONNX, for programs without torch; the facts are in its metadata."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # the exporter of torch needs it
    except ImportError as error:
        raise FedmirageError(
            f"--to onnx needs {error.name}, which is not installed; {ADDED}"
        ) from None
    program = trace(network, facts, "onnx")

    def convert() -> bytes:
        converted = torch.onnx.export(
            program, input_names=[INPUT], output_names=[OUTPUT], dynamo=True, verbose=False
        )
        assert converted is not None  # with dynamo
        for node in converted.model.graph.all_nodes():
            node.metadata_props.clear()  # they name places on this machine
        converted.model.metadata_props.update(
            {key: value if isinstance(value, str) else json.dumps(value)
             for key, value in describe(facts).items()}
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "model.onnx")
            converted.save(place, external_data=False)
            return place.read_bytes()

    content = attempt("onnx", convert)
    session = attempt("onnx", lambda: onnxruntime.InferenceSession(content))
    return content, lambda inputs: torch.from_numpy(
        session.run([OUTPUT], {INPUT: inputs.numpy()})[0]
    )


def trace(network: ExportedNetwork, facts: ModelFacts, kind: str) -> torch.export.ExportedProgram:
    """Turn a network into a graph for batches of any size."""
    given = (make_inputs(facts, 2),)
    batch = ({0: torch.export.Dim("batch")},)
    program: torch.export.ExportedProgram = attempt(
        kind, lambda: torch.export.export(network, given, dynamic_shapes=batch)
    )
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # it names places on this machine
    return program


def attempt(kind: str, work: Callable[[], Any]) -> Any:
    """Do a step of an export; whatever is raised becomes one sentence with a fix."""
    try:
        with quiet():
            return work()
    except Exception as error:
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        other = "; --to torch-export may" if kind == "onnx" else ""
        raise FedmirageError(
            f"{kind} cannot express this network ({type(error).__name__}: {text[:200]}), so nothing"
            f" was written{other}: let its forward() use operators of torch only, without branches"
            " that depend on values"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what exporters print and warn about from the terminal."""
    exporters = muted("torch.onnx", "torch.export", "onnxscript", level=logging.ERROR)
    with exporters, warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


FORMATS = {"onnx": to_onnx, "torch-export": to_torch}
