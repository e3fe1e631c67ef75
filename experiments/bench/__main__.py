"""Collects the benchmarks of this package, one file each, and runs the one that is asked for."""

import importlib
import pkgutil

import experiments.bench
from experiments.bench.app import app

for module in pkgutil.iter_modules(experiments.bench.__path__):
    if module.name != "__main__":
        importlib.import_module(f"experiments.bench.{module.name}")
app()
