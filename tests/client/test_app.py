"""The ClientApp in another process, to which Flower's simulation sends it."""

import os
import subprocess
import sys
from pathlib import Path

from ray import cloudpickle

from fedmirage.client.app import app

ROOT = Path(__file__).parents[2]
LOADED = """
import pickle, sys
pickle.load(sys.stdin.buffer)
module = sys.modules["flwr.client.mod.secure_aggregation.secaggplus_mod"]
print(module.generate_key_pairs.__module__, module.pseudo_rand_gen.__module__)
"""


def test_its_keys_and_masks_are_ours_where_it_was_sent_to() -> None:
    """Functions inside functions are sent as they are, and the module that has them is not loaded
    there; what that module does when it is imported is missing."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        input=cloudpickle.dumps(app),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
        check=False,
    )
    assert done.stdout.decode().split() == [
        "fedmirage.common.secagg.keys",
        "fedmirage.common.secagg.masks",
    ], done.stderr.decode()
