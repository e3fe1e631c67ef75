"""Which functions of Flower's SecAgg+ are replaced by ours, and how.

Flower imports each function by name in one module per side, so `install` replaces it there.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from fedmirage.common.secagg import keys, masks, shamir

Function = Callable[..., Any]

BOTH: dict[str, Function] = {
    "pseudo_rand_gen": masks.mask,
    "parameters_addition": masks.add,
    "parameters_subtraction": masks.subtract,
    "generate_shared_key": keys.generate_shared_key,
    "bytes_to_private_key": keys.bytes_to_private_key,
    "bytes_to_public_key": keys.bytes_to_public_key,
}
ON_THE_CLIENT: dict[str, Function] = {
    **BOTH,
    "quantize": masks.quantize,
    "generate_key_pairs": keys.generate_key_pairs,
    "private_key_to_bytes": keys.private_key_to_bytes,
    "public_key_to_bytes": keys.public_key_to_bytes,
    "encrypt": keys.encrypt,
    "decrypt": keys.decrypt,
    "create_shares": shamir.create_shares,
}
ON_THE_SERVER: dict[str, Function] = {
    **BOTH,
    "dequantize": masks.dequantize,
    "combine_shares": shamir.combine_shares,
}


def install(module: ModuleType, replacements: dict[str, Function]) -> None:
    """Make one of Flower's modules use these replacements."""
    for name, ours in replacements.items():
        if not hasattr(module, name):
            raise ImportError(f"{module.__name__} has no {name} to replace; install flwr 1.34")
        setattr(module, name, ours)
