"""Shows what a run would find on this host: device, threads, versions, ports, memory, certificates,
data."""

import os
import platform
import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedmirage.common import device
from fedmirage.common.data.loading import list_available
from fedmirage.common.settings.config import configure
from fedmirage.common.settings.project import ROOT
from fedmirage.runtimes.bundle import digest, own_code
from fedmirage.runtimes.simulation import plan_actors

PACKAGES = "flwr torch torchvision flwr-datasets ray grpcio protobuf numpy pydantic safetensors"
PORTS = {9091: "ServerAppIo", 9092: "Fleet: SuperNodes connect here"}
PORTS |= {9093: "Control: flwr run connects here"}
SOON = 60  # days before its end at which a certificate is worth a remark


def doctor(console: Console, data_dir: str | None) -> None:
    """Print everything, with a remark on what would not work."""
    table = Table(title="fedmirage doctor", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")  # a cut path or checksum would be of no use
    for name, value in [*machine(), *versions(), *ports(), *certificates(), *data(data_dir)]:
        table.add_row(name, value)
    console.print(table)


def machine() -> Iterator[tuple[str, str]]:
    """Yield device, cores, memory and disk."""
    import torch

    yield "device", f"{device.pick('auto')} ({torch.cuda.device_count()} CUDA devices)"
    yield "cores", f"{device.cores()} usable of {os.cpu_count()}"
    config = configure()
    plan = plan_actors(config)
    yield "simulation", str(plan)
    yield "clients per GPU", f"{1 / plan.gpu_share:.0f}" if plan.gpu_share else "none: no GPU"
    server = config.server_threads or device.cores()
    yield "threads", f"{config.threads} per client, {server} for the server"
    yield "memory format", f"{config.memory_format} (images and convolutions)"
    yield "optimiser", f"{config.optimizer}, fused: one kernel per step for all weights"
    yield "free memory", free_memory()
    for name, place in (("shared memory for Ray", "/dev/shm"), ("free disk here", ".")):
        there = Path(place).exists()
        yield name, f"{shutil.disk_usage(place).free / 1e9:.1f} GB" if there else "none"


def free_memory() -> str:
    """Return the kernel's estimate of the memory that a new process could have."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return f"{int(fields['MemAvailable'].split()[0]) / 1e6:.1f} GB"
    except (OSError, KeyError, ValueError):
        return "unknown"


def versions() -> Iterator[tuple[str, str]]:
    """Yield the versions of Python and of the packages on which the numbers depend."""
    yield "python", platform.python_version()
    for package in PACKAGES.split():
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "missing: make setup"
    try:
        from fedmirage.common.models.vision import torchvision

        torchvision()
        yield "torchvision import", "works"
    except Exception as error:
        yield "torchvision import", f"fails: {error}"
    yield "code of the app", digest(own_code())


def ports() -> Iterator[tuple[str, str]]:
    """Yield the state of Flower's usual ports; `--runtime grpc` uses other, free ones."""
    for port, use in PORTS.items():
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", port)) == 0
        yield f"port {port}", f"{'in use' if taken else 'free'} ({use})"


def certificates() -> Iterator[tuple[str, str]]:
    """Yield until when the certificates of a federation are valid, if there are any here."""
    known = os.environ.get("FEDMIRAGE_CERTIFICATES")
    folder = Path(known) if known else ROOT / "deploy" / "certificates"
    for name in ("ca.crt", "server.crt"):
        if (folder / name).exists():
            yield name, lifetime(folder / name, datetime.now(UTC))


def lifetime(certificate: Path, now: datetime) -> str:
    """Say until when a certificate is valid, and what to do if that is soon."""
    from cryptography.x509 import load_pem_x509_certificate

    try:
        end = load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"
    days = (end - now).days
    state = f"valid until {end:%Y-%m-%d}, {days} days" if end > now else f"expired {end:%Y-%m-%d}"
    mend = "; delete it and its key, and start `fedmirage superlink` with the same --host"
    return state + (mend if days < SOON else "")


def data(data_dir: str | None) -> Iterator[tuple[str, str]]:
    """Yield where each data set was found, and in one line which were not, and what to do."""
    found = list_available(data_dir)
    yield from ((name, origin) for name, origin in found.items() if origin)
    if missing := [name for name, origin in found.items() if not origin]:
        text = f"{', '.join(missing)}; --download fetches some, fedmirage datasets NAME says more"
        yield "not found", text
