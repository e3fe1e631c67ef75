"""Runs a user's encoder over a set that was read: inputs of any kind become vectors."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedmirage.common.confinement import confined
from fedmirage.common.data.files.raw import Raw, RawSplit, Rows, Values
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.own_code import find

BATCH = 256  # samples that the encoder gets at a time
IMPORTS = "import its libraries at the top of its module"  # some start programs when imported


def encode_raw(raw: Raw, reference: str) -> Raw:
    """Encode both splits; the vectors are used as they are, neither centred nor scaled."""
    encoder = find(reference, "encoder")
    train = encode_split(raw.train, encoder, reference)
    test = None if raw.test is None else encode_split(raw.test, encoder, reference)
    width = train.images.shape[1]
    return Raw(
        train,
        test,
        raw.classes,
        scale=((0.0,) * width, (1.0,) * width),
        column_names=raw.column_names,
    )


def encode_split(split: RawSplit, encoder: Callable[[Any], Any], reference: str) -> RawSplit:
    """Encode one split, a batch at a time."""
    parts = [
        _encode(split.images[start : start + BATCH], encoder, reference)
        for start in range(0, len(split.images), BATCH)
    ]
    if len(widths := {part.shape[1] for part in parts}) > 1:
        raise DataError(
            f"encoder={reference!r} returned vectors of {len(widths)} different widths; it must"
            " return one width for all samples"
        )
    return replace(split, images=np.concatenate(parts) if parts else np.zeros((0, 1), np.float32))


def _encode(inputs: Values, encoder: Callable[[Any], Any], reference: str) -> Rows:
    import torch

    given = inputs.tolist() if inputs.dtype == object else torch.tensor(inputs)
    try:
        with torch.inference_mode(), confined(f"encoder={reference!r}", IMPORTS):
            found = encoder(given)
        vectors: Rows = np.asarray(torch.as_tensor(found).cpu().numpy(), np.float32)
    except FedmirageError:
        raise
    except Exception as error:
        # A message about texts may quote them.
        quoted = "" if inputs.dtype == object else ": " + " ".join(str(error).split())[:200]
        raise DataError(
            f"encoder={reference!r} fails ({type(error).__name__}{quoted}); it takes a list of"
            " texts or a uint8 tensor of pictures, and returns one vector per sample"
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(inputs) or not vectors.shape[1]:
        raise DataError(
            f"encoder={reference!r} returned the shape {vectors.shape} for {len(inputs)} samples;"
            " it must return one vector per sample, (samples, width)"
        )
    if wrong := int((~np.isfinite(vectors)).any(1).sum()):
        raise DataError(
            f"encoder={reference!r} returned NaN or infinite values for {wrong} of"
            f" {len(inputs)} samples; correct it"
        )
    return vectors
