"""What a dataset line leaves open, for a server that does not read the data."""

from fedmirage.common.data.catalogue.base import DatasetParams, OwnParams
from fedmirage.common.data.catalogue.encoded import Embeddings
from fedmirage.common.data.catalogue.params import OwnTable
from fedmirage.common.settings.language import write


def find_open(params: DatasetParams) -> list[str]:
    """Say in sentences what a dataset line leaves open that a server without data must know."""
    if isinstance(params, OwnTable):
        return []  # its schema says all that
    card, name = params.about(), write(params)
    start = f"server-data='none': the server does not read dataset={name!r}, so it must say "
    inner = params.inner if isinstance(params, Embeddings) else params
    problems = []
    named = bool(card.classes) if isinstance(inner, OwnParams) else bool(card.class_count)
    if not named:
        problems.append(
            start + 'which classes there are; write classes=("NAME", "NAME", ...) with the names of'
            " all"
        )
    if params.known_shape is None:
        problems.append(f"{start}what form the inputs have; write {params.missing_shape}")
    if params.scaled_by_content:
        problems.append(
            f"server-data='none': the inputs of {name} are scaled by numbers that only reading them"
            " gives; write server-data='test'"
        )
    return problems
