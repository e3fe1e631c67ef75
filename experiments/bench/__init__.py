"""Benchmarks, one file each: a new file here is a new command of `python -m experiments.bench`."""
