"""DynaFed on the server, the only half it has."""

from server.methods.dynafed.server import DynaFed

__all__ = ["DynaFed"]
