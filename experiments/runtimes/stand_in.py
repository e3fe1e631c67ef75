"""Stands in for an agent of Ray's that nobody asks anything: it lives as long as its parent."""

import os
import time

if __name__ == "__main__":
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
