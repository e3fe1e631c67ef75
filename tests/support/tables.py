"""A small table with numbers, categories and missing values, and its schema."""

from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.client.app import make_app
from fedmirage.common.settings.config import RunConfig, configure
from tests.support.inprocess import InProcessGrid, node_id

SCHEMA = """
version = 1
label = "outcome"
classes = ["no", "yes"]
[[column]]
name = "patient"
type = "ignore"
[[column]]
name = "age"
type = "number"
missing = "indicator"
low = 0
high = 120
[[column]]
name = "colour"
type = "category"
categories = ["red", "green", "blue"]
missing = "category"
[[column]]
name = "weight"
type = "number"
missing = "mean"
low = 0
high = 300
"""
HEADER = "patient,age,colour,weight,outcome"
SCALED = 'name = "{name}"\nmean = {mean}\nstd = {std}\n'


def write_schema(folder: Path, text: str = SCHEMA, name: str = "schema.toml") -> Path:
    """Write a schema file."""
    path = folder / name
    path.write_text(text)
    return path


def write_table(folder: Path, rows: int = 60, seed: int = 0, name: str = "table.csv") -> Path:
    """Write a table in which every column says something about the outcome."""
    generator = np.random.default_rng(seed)
    lines = [HEADER]
    for row in range(rows):
        ill = row % 2 == 0
        age = "" if generator.random() < 0.2 else f"{generator.normal(60 - 20 * ill, 10):.0f}"
        colour = generator.choice(
            ["red", "green", "blue", ""], p=[0.6 - 0.4 * ill, 0.2, 0.1, 0.1 + 0.4 * ill]
        )
        weight = "NA" if generator.random() < 0.1 else f"{generator.normal(80 + 10 * ill, 10):.1f}"
        lines.append(f"p{row},{age},{colour},{weight},{'yes' if ill else 'no'}")
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def write_rows(folder: Path, *rows: str, header: str = HEADER, name: str = "rows.csv") -> Path:
    """Write a table of these rows."""
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def line_of(path: Path, schema: Path, **more: Any) -> str:
    """Write the line of a data set."""
    further = "".join(f", {key}={value!r}" for key, value in more.items())
    return f"table(path={str(path)!r}, schema={str(schema)!r}{further})"


def with_scale(text: str = SCHEMA) -> str:
    """Add mean and deviation to every number of the schema."""
    text = text.replace('name = "age"\n', SCALED.format(name="age", mean=50, std=15))
    return text.replace('name = "weight"\n', SCALED.format(name="weight", mean=80.5, std=12.5))


def federation(
    folder: Path, settings: dict[str, Any], nodes: list[tuple[Path, Path]]
) -> tuple[InProcessGrid, RunConfig]:
    """Make a run whose nodes have a table and a schema of their own."""
    config = configure(
        {**settings, "clients": len(nodes), "out": str(folder / "run"), "node_timeout": 0.5}
    )
    grid = InProcessGrid(make_app(config, folder / "memory"), len(nodes))
    for partition, (path, schema) in enumerate(nodes):
        own = {"data": str(path), "schema": str(schema)}
        grid.contexts[node_id(partition)].node_config.update(own)
    return grid, config
