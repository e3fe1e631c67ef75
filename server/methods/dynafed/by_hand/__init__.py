"""The derivatives of a ConvNet's inner steps, written out by hand, because autograd's are slow.

Nothing of DynaFed is in here. `student.py` calls `gradient_by_hand`, and by_hand=False does not.
"""

from fedmirage.server.methods.dynafed.by_hand.convnet import gradient_by_hand

__all__ = ["gradient_by_hand"]
