"""VHL on the server. Declared in common/methods/vhl."""

from fedmirage.server.methods.vhl.server import VhlServer

__all__ = ["VhlServer"]
