"""Secure rounds in which not all clients are neighbours: losses, and a dishonest server.

The attacks of test_hostile_server.py are played here again where the circle matters, beside those
that lots and seats invite.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Stage

from fedmirage.common.memory import client_folder
from fedmirage.common.secagg.agreement import AGREE, DRAW, LOT, SEALED_LOT
from fedmirage.common.secagg.circle import seal_lot
from fedmirage.common.secagg.keys import generate_key_pairs, public_key_to_bytes
from tests.support.hostile import TOKEN, HostileServer, RefusedError
from tests.support.inprocess import node_id, run_in_process
from tests.support.pairs import BASE
from tests.support.runs import assert_same_bits, lines
from tests.support.secure_rounds import exchange_long_term_keys, lose, stage_of

FEW = "on(neighbour_share=0.1)"  # nine neighbours of fourteen clients, seven of which open a key
SETTINGS = {
    **BASE,
    "dataset": "digits(limit=200, size=8)",
    "clients": 14,
    "rounds": 1,
    "eval_every": 1,
    "round_timeout": 0.5,
    "secagg": FEW,
}
MANY = 70  # clients: by default 51 of them are neighbours, 39 of which open a key


def in_the_round(folder: Path) -> list[int]:
    (line,) = lines(folder)
    return [client["partition"] for client in line["clients"]]


# Losses


def test_seventy_clients_have_the_sum_of_a_complete_round(tmp_path: Path) -> None:
    """The sum is exact, so that the number of neighbours does not change a bit of the model."""
    settings = {**SETTINGS, "dataset": "digits(limit=700, size=8)", "clients": MANY}
    for name, secagg in {"few": "on", "all": "on(neighbour_share=1.0)"}.items():
        run_in_process(tmp_path / name, **{**settings, "secagg": secagg})
    assert_same_bits(tmp_path / "few", tmp_path / "all")
    assert in_the_round(tmp_path / "few") == list(range(MANY))


@pytest.mark.parametrize("stage", [Stage.SETUP, DRAW, Stage.SHARE_KEYS])
def test_a_client_lost_before_training_means_another_try(tmp_path: Path, stage: str) -> None:
    run_in_process(tmp_path / "early", lose(2, stage), **SETTINGS)
    run_in_process(tmp_path / "later", lose(2, Stage.COLLECT_MASKED_VECTORS), **SETTINGS)
    (retry,) = lines(tmp_path / "early", "retry")
    assert "client 2: no answer" in retry["reason"]
    assert in_the_round(tmp_path / "early") == [who for who in range(14) if who != 2]
    assert_same_bits(tmp_path / "early", tmp_path / "later")


@pytest.mark.parametrize("stage", [AGREE, Stage.UNMASK])
def test_a_client_lost_after_training_changes_nothing(tmp_path: Path, stage: str) -> None:
    run_in_process(tmp_path / "lost", lose(2, stage), **SETTINGS)
    run_in_process(tmp_path / "whole", **SETTINGS)
    assert in_the_round(tmp_path / "lost") == list(range(14))
    assert_same_bits(tmp_path / "lost", tmp_path / "whole")


def test_a_try_that_could_not_be_opened_is_repeated_in_the_same_seats(tmp_path: Path) -> None:
    """Client 5 is lost in training. Too few answers to the last request arrive; those who sent them
    open the round only for the same clients, who find their seats again."""
    drops = [lose(5, Stage.COLLECT_MASKED_VECTORS, times=9)]
    drops += [lose(who, Stage.UNMASK) for who in (0, 1, 2, 3, 4)]

    def some(node: int, reply: Message) -> Message | None:
        return None if any(drop(node, reply) is None for drop in drops) else reply

    run_in_process(tmp_path / "lost", some, **SETTINGS)
    run_in_process(tmp_path / "whole", drops[0], **SETTINGS)
    assert len(lines(tmp_path / "lost", "retry")) == 1
    assert_same_bits(tmp_path / "lost", tmp_path / "whole")


# Lots


@pytest.mark.parametrize(
    ("stage", "key", "reason"),
    [
        (Stage.SETUP, SEALED_LOT, "its message holds no sealed lot"),
        (DRAW, LOT, "its lot is not the one that it has sealed"),
    ],
)
def test_a_false_lot_costs_its_sender_the_round(
    tmp_path: Path, stage: str, key: str, reason: str
) -> None:
    def spoil(node: int, reply: Message) -> Message:
        if node == node_id(1) and stage_of(reply) == stage:
            reply.content.config_records[RECORD_KEY_CONFIGS][key] = b"another"
        return reply

    run_in_process(tmp_path, spoil, **SETTINGS)
    (retry,) = lines(tmp_path, "retry")
    assert f"client 1: {reason}" in retry["reason"]
    assert in_the_round(tmp_path) == [who for who in range(14) if who != 1]


def test_lots_are_shown_once_and_only_when_all_are_bound(tmp_path: Path) -> None:
    """A server that saw the lots before its accomplices are bound could choose theirs."""
    server = HostileServer(tmp_path, 14, FEW)
    server.exchange_keys(range(14))
    sealed = server.sealed_lots
    for told in (
        {node: seal for node, seal in sealed.items() if node != node_id(3)},
        {**sealed, node_id(0): seal_lot(b"not its own")},
        {**sealed, 17: seal_lot(b"a stranger's")},
    ):
        with pytest.raises(RefusedError, match="list of the clients' lots is not that of this try"):
            server.draw(0, told)
    server.draw(0)
    with pytest.raises(RefusedError, match="draw lots for their seats once, after the set-up"):
        server.draw(0, {**sealed, node_id(3): seal_lot(b"a better one")})


def test_an_accomplice_cannot_change_its_lot_when_it_has_seen_the_others(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 14, FEW)
    server.exchange_keys(range(14))
    for who in range(14):
        server.draw(who)
    server.lots[node_id(3)] = b"the best of many"
    server.circle = server.circle.seat(server.lots)
    with pytest.raises(RefusedError, match="lots that the server passes on are not those that"):
        server.share_keys()


def test_seats_are_not_taken_without_lots(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 14, FEW)
    server.exchange_keys(range(14))
    with pytest.raises(RefusedError, match="lots that the server passes on are not those that"):
        server.share_keys()


def test_every_try_draws_new_seats(tmp_path: Path) -> None:
    """Unless key shares were sent: then the same clients have the same seats again."""
    server = HostileServer(tmp_path, 14, FEW)
    orders = []
    for _ in range(2):
        server.exchange_keys(range(14))
        server.take_seats()
        orders.append(list(server.circle.partitions))
    assert orders[0] != orders[1]
    server.share_keys()
    server.restart_nodes()
    server.begin(range(14))
    assert list(server.circle.partitions) == orders[1]
    server.begin(range(13))
    assert [node for node in orders[1] if node != node_id(13)] != list(server.circle.partitions)


# Sums


def open_round(server: HostileServer, clients: Iterable[int], left: Iterable[int]) -> np.ndarray:
    """Do a round by the rules with some clients, of which some are left."""
    left = set(left)
    server.begin(clients)
    for who in left:
        server.collect(who)
    for who in left:
        server.agree(who, left)
    for who in left:
        around = server.neighbours(who)
        server.unmask(who, sorted(around & left), sorted(around - left))
    return server.open(left)


def test_an_honest_server_opens_the_sum_of_many(tmp_path: Path) -> None:
    """The tool works with the default of seventy clients, also if seven of them are lost."""
    server = HostileServer(tmp_path, MANY)
    left = range(MANY - 7)
    assert np.allclose(open_round(server, range(MANY), left), server.sum_of(left), atol=1e-9)
    assert (server.plan.shares, server.plan.threshold) == (51, 39)


def test_two_stories_about_one_client(tmp_path: Path) -> None:
    """Half of the victim's neighbours hear that it is left, and half that it was lost: with shares
    of both keys the server could open its update alone. Neither story has enough believers."""
    server = HostileServer(tmp_path, MANY)
    server.begin(range(MANY))
    everybody, victim = set(range(MANY)), 0
    for who in everybody:
        server.collect(who)
    around = sorted(server.neighbours(victim) - {victim})
    stories = {who: everybody - {victim} if who in around[::2] else everybody for who in around}
    for who, story in stories.items():
        server.agree(who, story)
    refused = 0
    for who, story in stories.items():
        own = server.neighbours(who)
        with pytest.raises(RefusedError, match=r"\d+ neighbours agree .*, and 39 must"):
            server.unmask(who, sorted(own & story), sorted(own - story))
        refused += 1
    assert refused == 50


def test_few_neighbours_have_to_agree_even_if_nobody_is_lost(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, MANY)
    server.begin(range(MANY))
    server.collect(0)
    with pytest.raises(RefusedError, match="1 neighbours agree on which clients are left, and 39"):
        server.unmask(0, sorted(server.neighbours(0)), [])


def test_arcs_of_the_circle_are_not_opened_one_by_one(tmp_path: Path) -> None:
    """Two gaps of five seats, which no mask bridges, leave two arcs of ten clients."""
    server = HostileServer(tmp_path, 30, "on(neighbour_share=0.1, threshold=0.51)")
    server.begin(range(30))
    order = list(server.circle.partitions.values())
    left = {who for place, who in enumerate(order) if place % 15 < 10}
    for who in left:
        server.collect(who)
    with pytest.raises(RefusedError, match="clients that are left have no masks in common"):
        server.agree(order[0], left)
    bridged = left | {order[12]}
    server.collect(order[12])
    server.agree(order[0], bridged)


def test_a_part_of_the_neighbours_is_not_enough(tmp_path: Path) -> None:
    """A vector that lacks masks, or has one of them twice, would open with fewer keys."""
    server = HostileServer(tmp_path, 14, FEW)
    server.begin(range(14))
    others = sorted(server.neighbours(0) - {0})
    for sources in (others[1:], [*others[1:], others[1]]):
        with pytest.raises(RefusedError, match="key shares of other clients than this one's neigh"):
            server.collect(0, sources)


def test_masking_keys_of_the_servers_own(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 14, FEW)
    server.exchange_keys(range(14))
    server.take_seats()
    other = min(server.neighbours(0) - {0})
    false = [public_key_to_bytes(generate_key_pairs()[1]), server.keys[other][1]]
    server.share_keys(forged={0: {other: false}})
    with pytest.raises(RefusedError, match="made for another round, other clients or other keys"):
        server.collect(0)


def test_clients_that_know_each_other_cannot_be_impersonated(tmp_path: Path) -> None:
    """They sign their keys before the seats are drawn, and check them afterwards."""
    configs = exchange_long_term_keys(tmp_path, 14)
    server = HostileServer(tmp_path, 14, FEW, node_configs=configs)
    opened = open_round(server, range(14), range(14))
    assert np.allclose(opened, server.sum_of(range(14)), atol=1e-9)
    server.exchange_keys(range(14))
    server.take_seats()
    other = min(server.neighbours(0) - {0})
    false = [public_key_to_bytes(generate_key_pairs()[1]) for _ in range(2)]
    with pytest.raises(RefusedError, match=rf"client {other} are not signed with the key in"):
        server.share_keys(forged={0: {other: false}})


# The same round twice


def test_the_same_round_in_other_seats(tmp_path: Path) -> None:
    """An accomplice draws another lot: with other neighbours, a client that one sum had left out
    might be in the other. Those who are bound to the first seats do not go along."""
    server = HostileServer(tmp_path, 14, FEW)
    everybody = open_round(server, range(14), range(14))
    server.restart_nodes()
    assert np.array_equal(open_round(server, range(14), range(14)), everybody)
    for path in client_folder(tmp_path, TOKEN, 3).rglob("seats-*.json"):
        path.unlink()
    with pytest.raises(RefusedError, match="drawn other seats than in an earlier try"):
        open_round(server, range(14), range(14))


def test_a_note_of_seats_that_was_never_finished_binds_nobody(tmp_path: Path) -> None:
    """The client died while it wrote, and had sent no key shares."""
    server = HostileServer(tmp_path, 14, FEW)
    server.begin(range(14))
    for path in (notes := list(tmp_path.rglob("seats-*.json"))):
        path.write_text('{"lot": "00')
    open_round(server, range(14), range(14))
    assert len(notes) == 14
    assert all(json.loads(path.read_text())["seats"] for path in notes)


def test_a_client_opens_a_round_in_the_same_seats_only(tmp_path: Path) -> None:
    """Even if all clients have forgotten their lots, what they have opened binds them."""
    server = HostileServer(tmp_path, 14, FEW)
    open_round(server, range(14), range(14))
    for path in tmp_path.rglob("seats-*.json"):
        path.unlink()
    with pytest.raises(RefusedError, match=r"has opened round 1 .* opens it for no others"):
        open_round(server, range(14), range(14))


def test_the_same_round_without_one_client(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 14, FEW)
    open_round(server, range(14), range(14))
    with pytest.raises(RefusedError, match="has opened round 1 of this run with the clients 0 1 2"):
        open_round(server, range(13), range(13))
