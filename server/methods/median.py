"""Median on the server, its only half. Declared in common/methods/median.py."""

from fedmirage.server.methods.trimmed_mean import TrimmedMeanServer


class MedianServer(TrimmedMeanServer):
    """The mean of the one or two values that are left if as many as possible are left out."""
