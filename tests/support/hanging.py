"""A client that really hangs, once, in whichever process trains it."""

import os
from pathlib import Path

HANG = """
import os, threading
from pathlib import Path
from fedmirage.client import client

train = client.FederatedClient.fit

def fit(self, *arguments):
    mark = Path(os.environ["HANGS"])
    helper = threading.current_thread() is threading.main_thread()
    if helper is (os.environ["WHERE"] == "helper") and not mark.exists():
        mark.touch()
        threading.Event().wait()
    return train(self, *arguments)

client.FederatedClient.fit = fit
"""


def hang_once(folder: Path, helper: bool) -> dict[str, str]:
    """Return the environment in which the first client to train in a new Python hangs for ever.

    It is the first one in the main thread of a helper or actor, or the first one in another thread,
    as in the server's process. The file `hangs` in the folder says that it does.
    """
    (folder / "sitecustomize.py").write_text(HANG)
    root = Path(__file__).parents[2]
    return {
        "PYTHONPATH": f"{folder}{os.pathsep}{root}",
        "HANGS": str(folder / "hangs"),
        "WHERE": "helper" if helper else "server",
    }
