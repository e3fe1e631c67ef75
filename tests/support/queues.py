"""A queue of tiny runs, of which two fail."""

from pathlib import Path

COMMON = 'dataset = "digits(limit=300)", clients = 4, local-steps = 3, batch-size = 16'
QUEUE = """
out = "{out}"

[[job]]
name = "fedavg"
seeds = [0, 1]
settings = {{ rounds = {rounds}, {common} }}

[[job]]
name = "step"
seeds = [0]
settings = {{ rounds = {rounds}, lr = 0.001, {common} }}
parent = "fedavg@2"

[[job]]
name = "broken"
settings = {{ rounds = 2, methods = "vhl(virtual_classes=3)", {common} }}

[[job]]
name = "orphan"
settings = {{ rounds = 3, {common} }}
parent = "broken@1"
"""


def write_queue(tmp_path: Path, rounds: int, text: str = QUEUE) -> Path:
    path = tmp_path / "queue.toml"
    path.write_text(text.format(out=tmp_path / "runs", rounds=rounds, common=COMMON))
    return path
