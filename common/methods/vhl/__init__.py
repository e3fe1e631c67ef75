"""VHL: the declaration, and the virtual sets that both sides can make.

The networks that make the sets are never trained. All randomness comes from one seed, and the sets
are computed on the CPU with one thread, so that both sides get the same bits.
"""

from fedmirage.common.methods.vhl.declaration import REMEMBERED, VIRTUAL, Vhl

__all__ = ["REMEMBERED", "VIRTUAL", "Vhl"]
