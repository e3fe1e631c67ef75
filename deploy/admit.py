"""Make the nodes that a SuperLink admits equal to a folder of public keys, and bind each of them to
its partition.

The folder holds the key of partition N as N.pub. A new file admits a node; a deleted one revokes
its key at once, also during a run. The node ids, each with its partition, go to the file of
FEDMIRAGE_NODES, with which a run refuses a node that names another's partition.
"""

import os
import sys
from pathlib import Path

import grpc
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.cli.flower_config import read_superlink_connection
from flwr.cli.utils import init_channel_from_connection
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest
from flwr.proto.control_pb2_grpc import ControlStub
from flwr.supercore.constant import NodeStatus
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedmirage.common.errors import FedmirageError
from fedmirage.server.messages.node_ids import VARIABLE


def admit(link: ControlStub, folder: Path, file: Path) -> list[str]:
    """Register and unregister what has changed, write the file, and say what was done."""
    keys = read_keys(folder)
    known = {node.public_key: node for node in link.ListNodes(ListNodesRequest()).nodes_info}
    gone = NodeStatus.UNREGISTERED
    said, places = [], {}
    for key, node in known.items():
        if key not in keys and node.status != gone:
            link.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
            said.append(f"node {node.node_id} is revoked, since its key is not in {folder}")
    for key, partition in keys.items():
        if key in known and known[key].status == gone:
            said.append(
                f"{partition}.pub was revoked before, and no key is admitted twice: delete the key"
                f" pair {partition} and run deploy/make-certificates for a new one"
            )
        elif key in known:
            places[known[key].node_id] = partition
        else:
            node_id = link.RegisterNode(RegisterNodeRequest(public_key=key)).node_id
            places[node_id] = partition
            said.append(f"node {node_id} is admitted for partition {partition}")
    write_places(file, places)
    return [*said, f"nodes that are admitted: {len(places)}"]


def read_keys(folder: Path) -> dict[bytes, int]:
    """Read the public keys, each with the partition that its file name says."""
    keys: dict[bytes, int] = {}
    for path in sorted(folder.glob("*.pub")):
        if not path.stem.isdecimal() or path.stem != str(int(path.stem)):
            raise FedmirageError(f"{path} must be named by its partition, for example 0.pub")
        key = read_key(path)
        if key in keys:
            raise FedmirageError(f"{path} holds the key of partition {keys[key]}; each has its own")
        keys[key] = int(path.stem)
    return keys


def read_key(path: Path) -> bytes:
    """Read one public key, in the form in which the SuperLink keeps it."""
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FedmirageError(f"{path} is not a public key: {error}") from None
    if not isinstance(key, EllipticCurvePublicKey):
        raise FedmirageError(f"{path} is not a key for a node: make it with ssh-keygen -t ecdsa")
    return public_key_to_bytes(key)


def write_places(file: Path, places: dict[int, int]) -> None:
    """Replace the file of FEDMIRAGE_NODES in one step, because a run may be reading it."""
    spare = file.with_suffix(".new")
    spare.write_text("".join(f'"{node}" = {partition}\n' for node, partition in places.items()))
    spare.replace(file)


if __name__ == "__main__":
    try:
        channel = init_channel_from_connection(read_superlink_connection("compose"))
        for line in admit(ControlStub(channel), Path(sys.argv[1]), Path(os.environ[VARIABLE])):
            print(line, flush=True)
    except FedmirageError as problem:
        sys.exit(str(problem))
    except grpc.RpcError as problem:
        sys.exit(f"the SuperLink did not do as it was asked: {problem}")
