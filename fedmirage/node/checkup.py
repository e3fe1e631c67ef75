"""Checks a node as `fedmirage supernode --check` does, and as every start of it does, too."""

import os
import shutil
import ssl
import stat
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmirage.client.node.outgoing import FILE as OUTGOING
from fedmirage.common.errors import FedmirageError, collect, reason
from fedmirage.common.memory import find_memory
from fedmirage.node import checks
from fedmirage.node.encryption import (
    connect,
    find_expired,
    has_tls,
    require_same_encryption,
    trustful,
)
from fedmirage.node.findings import FAULT, OK, WARNING, Finding
from fedmirage.node.own_files import examine_data
from fedmirage.runtimes.bundle import digest, own_code

if TYPE_CHECKING:
    from fedmirage.node.supernode import Way

SPARE = 2**30  # bytes; with less, a disk may be full within a run
LEAST = 10 * 2**20
SOON = 60  # days before its end at which a certificate is worth a remark
PACKAGES = ("fedmirage", "flwr", "torch", "torchvision", "numpy")


def examine(way: "Way", with_device: bool = False) -> list[Finding]:
    """Look at everything, all faults at once; the device takes seconds, since it needs torch."""
    findings = [Finding(FAULT, "options", problem) for problem in way.find_problems()]
    config: dict[str, Any] = {}
    with collect([]):  # which the options say already
        config = checks.read_node_config(way.node_config)
    if way.code == "own":
        findings += examine_own(config)
        findings += examine_memory(find_memory(config))
    findings += examine_keys(way, config)
    findings += examine_superlink(way.superlink, way.insecure, way.root_certificates)
    findings += examine_code()
    return findings + (examine_device() if with_device else [])


def examine_own(config: Mapping[str, Any]) -> list[Finding]:
    """Look at the node's own data, if it has any."""
    path, skip = config.get("data"), config.get("skip") is True
    if path is None:
        told = "none of its own (data=), so it trains on its share of the run's set"
        return [Finding(OK, "data", told)]
    if not Path(str(path)).expanduser().exists():
        return []  # the options say so
    return examine_data(Path(str(path)), skip, str(config.get("schema", "")))


def examine_memory(folder: Path) -> list[Finding]:
    """Look whether the memory folder can be written, by whom it can be read, and its space."""
    what = "memory"
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
        written = folder / OUTGOING
        if written.exists():
            with written.open("ab"):
                pass
    except OSError as error:
        told = f"{folder} cannot be written ({reason(error)}), so this node could send nothing;"
        told += " let its user write there, or name another folder: memory=... in --node-config"
        return [Finding(FAULT, what, told)]
    free = shutil.disk_usage(there).free
    if free < LEAST:
        told = f"{folder}: {free / 1e6:.0f} MB are free; free some space, or choose another disk"
        return [Finding(FAULT, what, told)]
    if free < SPARE:
        told = f"{folder}: only {free / 1e6:.0f} MB are free; a node whose disk is full is left out"
        return [Finding(WARNING, what, f"{told}, so free some space")]
    mode = stat.S_IMODE(folder.stat().st_mode) if folder.exists() else 0o700
    if mode & 0o077:
        told = f"{folder} is open to other users (mode {mode:o}), and as private as the data;"
        return [Finding(WARNING, what, f"{told} run chmod 700 {folder}")]
    return [Finding(OK, what, f"{folder} can be written, {free / 1e9:.0f} GB are free")]


def examine_keys(way: "Way", config: Mapping[str, Any]) -> list[Finding]:
    """Look at the private keys, and at who may read them; the options name what is no key."""
    keys = {checks.OWN_KEY: way.private_key}
    if given := config.get("secagg-key"):
        keys["secagg-key"] = Path(str(given)).expanduser()
    findings = []
    for name, path in keys.items():
        if path is None:
            told = "none, so the SuperLink must admit every node"
            findings.append(Finding(OK, "key", f"{name}: {told}"))
        elif path.exists():
            findings += examine_key(name, path)
    if given := config.get("secagg-peers"):
        findings.append(examine_peers(Path(str(given)).expanduser()))
    return findings


def examine_key(name: str, path: Path) -> list[Finding]:
    """Look at one private key."""
    if problems := checks.check_key(path, insecure=False, option=name):
        # the options have named the node's own key already
        return [Finding(FAULT, "key", text) for text in problems if name != checks.OWN_KEY]
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        told = f"{name} {path} is open to other users (mode {mode:o}), who could act as this node;"
        return [Finding(WARNING, "key", f"{told} run chmod 600 {path}")]
    return [Finding(OK, "key", f"{name} {path} is a private key that only its owner can read")]


def examine_peers(folder: Path) -> Finding:
    """Look whether the public keys of the other nodes are there."""
    found = sorted(folder.glob("*.pub"), key=lambda path: path.name) if folder.is_dir() else []
    if not found:
        told = f"secagg-peers {folder} has no N.pub in it; put the public key of every node there,"
        return Finding(FAULT, "key", f"{told} named after its partition")
    return Finding(OK, "key", f"secagg-peers {folder}: {len(found)} public keys")


def examine_superlink(superlink: str, insecure: bool, root: Path | None) -> list[Finding]:
    """Look whether the SuperLink answers, in the way that this node expects."""
    findings = (
        [examine_days(f"authority ({root})", root)] if root and root.expanduser().is_file() else []
    )
    encrypted = has_tls(superlink)
    if encrypted is None:
        told = f"nobody answers at {superlink}: it may be down, the address wrong, or a firewall"
        told += " between; a node waits until it answers"
        return [*findings, Finding(WARNING, "SuperLink", told)]
    try:
        require_same_encryption(superlink, insecure, root)
    except FedmirageError as error:
        return [*findings, Finding(FAULT, "SuperLink", str(error))]
    told = "with TLS" if encrypted else "without TLS, so anybody between can read and change it"
    findings.append(Finding(OK, "SuperLink", f"{superlink} answers {told}"))
    return [*findings, *([examine_days("SuperLink", superlink)] if encrypted else [])]


def examine_days(whose: str, source: Path | str) -> Finding:
    """Say how long a certificate is still valid: of a file, or of who listens at an address."""
    from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate

    subject = "certificate"
    try:
        if isinstance(source, Path):
            read = load_pem_x509_certificate(source.expanduser().read_bytes())
        else:
            read = load_der_x509_certificate(connect(source, trustful()) or b"")
    except (OSError, ValueError, ssl.SSLError) as error:
        told = f"the certificate of the {whose} cannot be read: {error}; get it again"
        return Finding(FAULT, subject, told)
    what, renew = f"the certificate of the {whose}", "ask whoever runs the SuperLink for a new one"
    if expired := find_expired(read):
        return Finding(FAULT, subject, f"{what} {expired}; {renew}")
    days = (read.not_valid_after_utc - datetime.now(UTC)).days
    told = f"{what} is valid until {read.not_valid_after_utc:%Y-%m-%d}, {days} days"
    if days < SOON:
        return Finding(WARNING, subject, f"{told}; {renew}")
    return Finding(OK, subject, told)


def examine_code() -> list[Finding]:
    """Say which versions and which code run here; the people of two sites can compare them."""
    found, missing = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    findings = [Finding(OK, "versions", ", ".join(found))]
    if missing:
        told = f"{', '.join(missing)}: not installed; see docs/installing.md"
        findings.append(Finding(FAULT, "versions", told))
    findings.append(Finding(OK, "code", f"{digest(own_code())}; a run must bring the same code"))
    return findings


def examine_device() -> list[Finding]:
    """Say where this node would compute."""
    from fedmirage.common import device

    cores = f"{device.cores()} of {os.cpu_count()} cores can be used"
    try:
        return [Finding(OK, "device", f"{device.pick('auto')}; {cores}")]
    except Exception as error:
        return [Finding(FAULT, "device", f"torch cannot be loaded ({error}); install it again")]
