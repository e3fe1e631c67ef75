"""Checks what a node is started with, before anything is started."""

import errno
import os
import re
import socket
import ssl
from pathlib import Path
from typing import Any

from fedmirage.common.errors import ConfigurationError, collect
from fedmirage.common.settings.language import nearest
from fedmirage.common.site_names import RULE, is_site_name

PAIR = re.compile(r"(\S+?)=('[^']*'|\"[^\"]*\"|\S+)")  # how Flower reads --node-config
KEYS = (
    *("partition-id", "num-partitions", "data", "memory", "require", "budget", "budget-delta"),
    *("secagg-key", "secagg-peers", "allow", "weights", "skip", "name", "schema"),
)
OWN_KEY = "--auth-supernode-private-key"
PATHS = ("data", "schema", "secagg-key", "secagg-peers", "weights")  # what must be there already


def check_certificates(path: Path | None, insecure: bool) -> list[str]:
    """Say what is wrong with --root-certificates."""
    if path is None:
        return []
    what = f"--root-certificates {path}"
    if insecure:
        return [f"{what} and --insecure exclude each other; leave --insecure out to have TLS"]
    if problem := unreadable(path):
        return [f"{what}: {problem}; it is ca.crt of whoever runs the SuperLink"]
    try:
        ssl.create_default_context(cafile=str(path.expanduser()))
    except (ssl.SSLError, ValueError):
        told = "holds no certificate; write the file of the authority's certificate (ca.crt)"
        return [f"{what} {told}"]
    return []


def check_key(path: Path | None, insecure: bool, option: str = OWN_KEY) -> list[str]:
    """Say what is wrong with a private key, which an option names."""
    if path is None:
        return []
    what = f"{option} {path}"
    if insecure:
        told = "proves nothing without TLS; write --root-certificates FILE in place of --insecure"
        return [f"{what} {told}"]
    make = "make one with `fedmirage key NAME`"
    if problem := unreadable(path):
        return [f"{what}: {problem}; {make}"]
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        key = load_ssh_private_key(path.expanduser().read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        return [f"{what} is no private key of ssh without a password; {make}"]
    if not isinstance(key, EllipticCurvePrivateKey):
        return [f"{what} is a key of another kind; {make}"]
    return []


def unreadable(path: Path) -> str:
    """Say why a file cannot be read; empty if it can."""
    path = path.expanduser()
    if not path.exists():
        return "there is no such file"
    if not path.is_file():
        return "it is no file"
    return "" if os.access(path, os.R_OK) else "you may not read it"


def read_node_config(text: str) -> dict[str, Any]:
    """Read --node-config; refuse what Flower would drop or could not read."""
    from flwr.common.config import parse_config_args

    if text.endswith(".toml"):
        if problem := unreadable(Path(text)):
            raise ConfigurationError([f"--node-config {text}: {problem}"])
    elif rest := PAIR.sub(" ", text).split():
        told = f"cannot read {rest[0]!r}; write pairs such as 'partition-id=0 num-partitions=3'"
        raise ConfigurationError([f"--node-config: {told}"])
    try:
        return parse_config_args([text] if text else None)
    except Exception as error:  # Flower raises what its parsers raise
        bare = [f'{key}="{value}"' for key, value in PAIR.findall(text) if is_bare(value)]
        fix = f"a text needs double quotes: {' '.join(bare)}" if bare else str(error)
        raise ConfigurationError([f"--node-config: {text} cannot be read; {fix}"]) from None


def add_name(text: str, name: str) -> str:
    """Add the name of the site to --node-config."""
    if name and not is_site_name(name):
        raise ConfigurationError([f"--name {name!r}: {RULE}"])
    return add_pair(text, "name", name)


def add_pair(text: str, key: str, value: str) -> str:
    """Add what an option of its own says to --node-config; nothing if it says nothing."""
    if not value:
        return text
    if text.endswith(".toml"):
        raise ConfigurationError(
            [f'--{key} {value}: --node-config is a file; write {key} = "{value}" into {text}']
        )
    if key in read_node_config(text):
        raise ConfigurationError([f"--{key} {value}: --node-config has a {key} too; write one"])
    return f'{text} {key}="{value}"'.lstrip()


def is_bare(value: str) -> bool:
    """Whether a value is a text without quotes."""
    if value[0] in "'\"" or value in ("true", "false"):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def check_node_config(text: str) -> list[str]:
    """Say what is wrong with --node-config of a node that runs our code."""
    what, unread = "--node-config", list[str]()
    config: dict[str, Any] = {}
    with collect(unread):
        config = read_node_config(text)
    if unread:
        return unread
    problems = [
        f"{what}: there is no key {key!r}{nearest(key, KEYS)}" for key in config if key not in KEYS
    ]
    partition = config.get("partition-id")
    if partition is None:
        told = "partition-id is missing; write 'partition-id=N', which client this is, from 0"
        problems.append(f"{what}: {told}")
    elif not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
        problems.append(f"{what}: partition-id={partition!r}: write a whole number from 0")
    if not isinstance(config.get("skip", False), bool):
        problems.append(f"{what}: skip={config['skip']!r}: write true or false, without quotes")
    if "name" in config and not is_site_name(config["name"]):
        problems.append(f"{what}: name={config['name']!r}: {RULE}")
    problems += [
        f"{what}: {key}={config[key]!r}: nothing is there; write the path as it is on this machine"
        for key in PATHS
        if key in config and not Path(str(config[key])).expanduser().exists()
    ]
    from fedmirage.client.node.demands import read_demands

    with collect(problems, "--"):
        read_demands(config)
    return problems


def check_address(address: str, option: str = "--clientappio-api-address") -> list[str]:
    """Say why nobody can listen at an address, which is where tasks are handed over by default."""
    host, _, port = address.rpartition(":")
    what = f"{option} {address}"
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, _, _, place = found[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except (ValueError, socket.gaierror):
        return [f"{what}: write HOST:PORT, e.g. 127.0.0.1:9095"]
    except OSError as error:
        told = (
            "another program, perhaps another node, uses it"
            if error.errno == errno.EADDRINUSE
            else str(error.strerror)
        )
        return [f"{what}: {told}; choose another port, e.g. 127.0.0.1:9095"]
    return []
