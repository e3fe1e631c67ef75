"""How methods are tried in short runs: what the public test kit has, by the name known here."""

from fedmirage.runtimes.quick import BASE, BATCH_NORM, finite, line

__all__ = ["BASE", "BATCH_NORM", "finite", "line"]
