"""What a synthesis reports while it runs, and what it saves for pictures (save-images)."""

import time
from pathlib import Path

import numpy as np
import torch

from fedmirage.common.wire.files import write_arrays
from fedmirage.common.wire.manifest import arrays_of
from fedmirage.common.wire.payload import Array
from fedmirage.server.methods.dynafed.synthesis import Synthesis
from fedmirage.server.methods.dynafed.trajectory import Segments
from fedmirage.server.strategy.context import Note

EVERY = 10.0  # seconds between two notes
# Fractions of all iterations after which a copy of the images is kept.
SNAPSHOTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class SynthesisLog:
    """Called before every iteration and after the last."""

    def __init__(self, round_number: int, iterations: int, note: Note, folder: Path | None) -> None:
        self.round, self.iterations, self.note, self.folder = round_number, iterations, note, folder
        self.started = self.said = time.perf_counter()
        self.marks = sorted({round(share * iterations) for share in SNAPSHOTS})
        self.snapshots: dict[str, Array] = {}

    def __call__(self, iteration: int, synthesis: Synthesis) -> None:
        """Write a note every few seconds, and keep a copy of the images at every mark."""
        if self.folder is not None and iteration in self.marks:
            (self.snapshots[f"images@{iteration:06d}"],) = arrays_of([synthesis.learned.images])
        now = time.perf_counter()
        if now - self.said >= EVERY and iteration:
            left = (now - self.started) / iteration * (self.iterations - iteration)
            self.note(
                self.round,
                f"dynafed synthesises: {iteration}/{self.iterations}, matching loss"
                f" {synthesis.loss:.4f}, {left:.0f} s left",
                progress=True,
            )
            self.said = now

    def finish(
        self, synthesis: Synthesis, accepted: bool, threshold: float, segments: Segments
    ) -> None:
        """Say in a sentence how it went, and write the file."""
        seconds = time.perf_counter() - self.started
        failed = f", {synthesis.failures} iterations were not finite" if synthesis.failures else ""
        first = f"{synthesis.losses[0]:.4f}" if synthesis.losses else "none"
        text = (
            f"matching loss {first} to {synthesis.loss:.4f} in {len(synthesis.losses)} iterations,"
            f" {seconds:.0f} s{failed}"
        )
        if accepted:
            self.note(self.round, f"dynafed has its set: {text}")
        else:
            self.note(
                self.round,
                f"dynafed leaves the model alone: {text}; a loss not below {threshold:g} means that"
                " the set learned nothing",
            )
        if self.folder is not None:
            file = self.folder / "dynafed" / f"round-{self.round:05d}.safetensors"
            self.write(file, synthesis, segments)

    def write(self, file: Path, synthesis: Synthesis, segments: Segments) -> None:
        """Save the set, the snapshots of its images, every loss, and the paths.

        A path has one row per checkpoint.
        """
        images, labels, rate = arrays_of(synthesis.learned.tensors())
        paths = {
            f"path@{number:03d}": torch.stack(path).cpu().numpy()
            for number, path in enumerate(segments.paths)
            if path
        }
        content = {"images": images, "labels": labels, "rate": rate}
        content["losses"] = np.array(synthesis.losses, np.float32)
        facts = {"round": self.round, "segment": segments.length}
        write_arrays(file, {**content, **self.snapshots, **paths}, facts)
