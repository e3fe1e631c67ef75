"""The process that checks all runs of a comparison before the first of them begins."""

from pathlib import Path
from typing import Any

from fedmirage.common.errors import collect, refuse
from fedmirage.common.settings.config import validate
from fedmirage.runtimes.child import check, serve


def check_all(tell: Any, configs: list[dict[str, Any]], verbose: bool) -> None:
    """Refuse everything that does not fit the data or this machine, in one go."""
    problems: list[str] = []
    for config in map(validate, configs):
        with collect(problems):
            check(config, Path(config.out), actors=0)
    refuse(problems)


if __name__ == "__main__":
    serve(check_all)
