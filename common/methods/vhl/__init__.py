"""VHL: the declaration, and the virtual sets that both sides can make.

The networks that make them are never trained. Everything random comes from one seed, and is
computed on the CPU with one thread.
"""

from common.methods.vhl.declaration import REMEMBERED, VIRTUAL, Vhl

__all__ = ["REMEMBERED", "VIRTUAL", "Vhl"]
