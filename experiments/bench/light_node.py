"""Real SuperNodes whose client computes nothing, so that many of them fit on one machine.

    python -m experiments.bench.light_node FLEET FACTS ADDRESS...

forks one process per address. Each is Flower's own SuperNode, which connects to the SuperLink; a
thread of it takes its tasks, and answers with the weights that came. FACTS is what the server
expects of a node's data, as JSON.
"""

import json
import os
import sys
import threading
import time
from typing import Any

import grpc  # type: ignore[import-untyped]
from flwr.app import Context, Message, RecordDict
from flwr.common import Code, FitRes, GetPropertiesRes, MessageTypeLegacy, Scalar, Status
from flwr.common.constant import SubStatus
from flwr.compat.common import recorddict_compat as compat
from flwr.proto.runtime_pb2 import ClaimTaskRequest, PullPendingTasksRequest
from flwr.proto.runtime_pb2_grpc import RuntimeStub
from flwr.supercore.grpc import create_channel
from flwr.supercore.interceptors import (
    RuntimeTokenClientInterceptor,
    RuntimeVersionClientInterceptor,
)
from flwr.supernode import start_client_internal as flower
from flwr.supernode.cli import flower_supernode
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedmirage.common.flower import WAITING, fetch_promptly
from fedmirage.common.wire.metrics import SAMPLES, STEPS
from fedmirage.common.wire.payload import LAYOUT
from fedmirage.node.waiting import Pace, set_pace

FINE = Status(Code.OK, "")
EXAMPLES = 20  # which each client says that it has


def main(fleet: str, facts: str, *addresses: str) -> None:
    """Fork the nodes, and wait for them."""
    for partition, address in enumerate(addresses):
        if os.fork() == 0:
            serve(fleet, json.loads(facts), partition, address)
    for _ in addresses:
        os.wait()


def serve(fleet: str, facts: dict[str, Scalar], partition: int, address: str) -> None:
    """Be a SuperNode, whose tasks a thread answers."""
    pace = None
    if os.environ.get(WAITING) != "flower":
        pace = set_pace(flower, "_push_messages")
        fetch_promptly()
    known = {**facts, "partition": partition, "own": False}
    threading.Thread(target=take_tasks, args=(address, known, pace), daemon=True).start()
    node = f"partition-id={partition}"
    sys.argv = ["flower-supernode", "--insecure", "--superlink", fleet, "--node-config", node]
    sys.argv += ["--isolation", "process", "--clientappio-api-address", address]
    flower_supernode()


def take_tasks(address: str, facts: dict[str, Scalar], pace: Pace | None) -> None:
    """Answer one task after the other, as long as this process lives."""
    version = RuntimeVersionClientInterceptor(component_name="SuperExec")
    stub = RuntimeStub(create_channel(address, insecure=True, interceptors=[version]))
    while True:
        try:
            for task in stub.PullPendingTasks(PullPendingTasksRequest()).tasks:
                token = stub.ClaimTask(ClaimTaskRequest(task_id=task.task_id)).token
                if token:
                    if pace:
                        pace.note()
                    answer_task(address, token, facts)
        except grpc.RpcError:  # the SuperNode has not begun, or has ended
            time.sleep(0.5)
        (pace or time).sleep(1)


def answer_task(address: str, token: str, facts: dict[str, Scalar]) -> None:
    """Fetch the message of a task, and send the reply."""
    interceptors = [
        RuntimeVersionClientInterceptor(component_name="flwr-clientapp"),
        RuntimeTokenClientInterceptor(token),
    ]
    with create_channel(address, insecure=True, interceptors=interceptors) as channel:
        stub = RuntimeStub(channel)
        message, context, _, _ = pull_task_input(stub)
        push_message(stub, answer(message, context, facts), context)
        push_task_output(stub, context, SubStatus.COMPLETED, "")


def answer(message: Message, context: Context, facts: dict[str, Scalar]) -> Message:
    """Say what the server expects of the data, or send back the weights that came."""
    content: RecordDict
    if message.metadata.message_type == MessageTypeLegacy.GET_PROPERTIES:
        content = compat.getpropertiesres_to_recorddict(GetPropertiesRes(FINE, dict(facts)))
    else:
        ins = compat.recorddict_to_fitins(message.content, keep_input=True)
        told: dict[str, Any] = {LAYOUT: ins.config[LAYOUT], STEPS: 1, SAMPLES: EXAMPLES}
        reply = FitRes(FINE, ins.parameters, EXAMPLES, told)
        content = compat.fitres_to_recorddict(reply, keep_input=True)
    return Message(content, reply_to=message)


if __name__ == "__main__":
    main(*sys.argv[1:])
