"""Whoever reaches Ray's ports can run programs on this host, so nobody else may reach them."""

import subprocess
import sys

SCRIPT = """
import os
from pathlib import Path
from fedmirage.common.settings.config import configure
from fedmirage.runtimes.ray_start import start_ray

start_ray(configure({}))
import ray
ray.get(ray.remote(num_cpus=1)(lambda: 0).remote())

def family(root):
    found = [root]
    for task in Path(f"/proc/{root}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found

def sockets(process):
    for link in Path(f"/proc/{process}/fd").iterdir():
        try:
            yield os.readlink(link).removeprefix("socket:[").removesuffix("]")
        except OSError:
            pass

ours = {inode for process in family(os.getpid()) for inode in sockets(process)}
for table in ("tcp", "tcp6"):
    for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        _, local, _, state, *rest = row.split()
        if state == "0A" and rest[5] in ours:  # it listens
            print("listens", local.partition(":")[0])
ray.shutdown()
"""
# 127.0.0.1 as the kernel writes it, by itself and inside IPv6, and ::1
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}


def test_ray_listens_on_this_host_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    listening = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("listens")}
    assert listening
    assert listening <= LOOPBACK
