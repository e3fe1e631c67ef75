"""Settings of short runs on inputs that are no pictures: rows, signals and embeddings."""

from typing import Any

from fedmirage.runtimes.quick import BASE

ROWS = {**BASE, "dataset": "breast-cancer(limit=60)", "partition": "classes(per_client=1)"}
SIGNALS = {**BASE, "dataset": "waves(limit=60)", "model": "cnn1d(width=2, depth=1, hidden=8)"}
ENCODED = "embeddings(of='digits(size=8)', encoder='tests.support.encoders:shrink', limit=60)"
EMBEDDINGS = {**BASE, "dataset": ENCODED}
INPUTS: dict[str, dict[str, Any]] = {
    "rows": ROWS,
    "signals": SIGNALS,
    "embeddings": EMBEDDINGS,
}
