"""VHL on the server."""

from server.methods.vhl.server import VhlServer

__all__ = ["VhlServer"]
