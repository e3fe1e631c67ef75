"""DynaFed on the server, the only half it has."""

from fedmirage.server.methods.dynafed.server import DynaFedServer

__all__ = ["DynaFedServer"]
