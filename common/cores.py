"""How many cores a process may use; loads without torch, unlike all else about devices."""

import os


def cores() -> int:
    """The number of cores that this process may use; in a container it can be fewer than all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
