"""VHL on the server."""

from server.methods.vhl.server import VirtualSet

__all__ = ["VirtualSet"]
