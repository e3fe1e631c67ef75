"""Which pairs of methods are tried, and how: in short runs of the public test kit."""

from collections.abc import Hashable, Iterable

from fedmirage.common.method import Method
from fedmirage.runtimes.quick import BASE, BATCH_NORM, finite, line
from fedmirage.testing.seams import CLASSES, Pair, meeting, order_matters, problems, seams

__all__ = ["BASE", "BATCH_NORM", "choose", "finite", "line"]

WORDS = (str, tuple, dict)  # what describes a method, or names things that are its alone


def choose(names: Iterable[str]) -> list[Pair]:
    """The sound pairs that are run.

    They are every pair that meets, in both orders where methods are nested; of methods that are
    alike in code and declarations, one stands for the others, a different one each time. Pairs that
    do not meet are sampled: every method has at least one such partner, if there is any.
    """
    names = list(names)
    pairs = [(one, other) for one in names for other in names if one != other]
    sound = [pair for pair in pairs if not problems(pair)]
    alike: dict[Hashable, list[Pair]] = {}
    for pair in filter(meeting, sound):
        if order_matters(pair) or pair[::-1] not in sound or pair[0] < pair[1]:
            alike.setdefault(tuple(map(kind, pair)), []).append(pair)
    met = [found[turn % len(found)] for turn, found in enumerate(alike.values())]
    return met + sample([pair for pair in sound if not meeting(pair)])


def sample(pairs: list[Pair]) -> list[Pair]:
    """Take so many of these pairs that every method of them is there, most of them once."""
    taken: list[Pair] = []
    for most in (0, 1):
        for pair in pairs:
            if len({*pair} & {name for chosen in taken for name in chosen}) <= most:
                taken.append(pair)
    return taken


def kind(name: str) -> Hashable:
    """What is equal in methods that share the code of their hooks and declare the same."""
    found = seams(name)
    method = found.method
    declared = [
        (key, getattr(method, key))
        for key in sorted(Method.__annotations__)
        if hasattr(Method, key) and not isinstance(getattr(Method, key), WORDS)
    ]
    sections = len(method.up), len(method.down)
    code = frozenset({*found.client.values(), *found.server.values()})
    return code, *declared, method.parts, sections, method.extra_outputs(CLASSES)
