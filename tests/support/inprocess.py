"""The runs of the public test kit, under the name by which tests here know them."""

from fedmirage.testing.inprocess import InProcessGrid, Intercept, node_id, run_in_process

__all__ = ["InProcessGrid", "Intercept", "node_id", "run_in_process"]
