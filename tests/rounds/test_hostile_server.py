"""A dishonest server against honest clients: what it may ask, and which sums it can open.

Every attack ends with the vectors that it was after, unless a client refuses to take part in it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord
from flwr.common.secure_aggregation.secaggplus_constants import Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import (
    share_keys_plaintext_concat,
    share_keys_plaintext_separate,
)

from fedmirage.common.secagg.circle import CIRCLE, Circle
from fedmirage.common.secagg.keys import (
    TAG,
    bytes_to_public_key,
    decrypt,
    encrypt,
    generate_key_pairs,
    generate_shared_key,
    make_tag,
    public_key_to_bytes,
)
from tests.support.hostile import TOKEN, HostileServer, RefusedError
from tests.support.inprocess import node_id
from tests.support.secure_rounds import exchange_long_term_keys


def test_an_honest_server_opens_the_sum(tmp_path: Path) -> None:
    """The tool works: without it, a refused attack would prove nothing."""
    server = HostileServer(tmp_path, 4)
    server.begin(range(4))
    for who in range(4):
        server.collect(who)
    for who in range(3):  # three of four shares are enough
        server.unmask(who, range(4), [])
    assert np.allclose(server.open({0, 1, 2, 3}), server.sum_of(range(4)), atol=1e-9)


def test_an_honest_server_does_without_a_lost_client(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 5)
    server.begin(range(5))
    for who in (0, 1, 2, 3):
        server.collect(who)
    for who in (0, 1, 2, 3):
        server.agree(who, [0, 1, 2, 3])
    for who in (0, 1, 2, 3):
        server.unmask(who, [0, 1, 2, 3], [4])
    assert np.allclose(server.open({0, 1, 2, 3}), server.sum_of(range(4)), atol=1e-9)


# One update alone


def test_a_neighbour_repeated(tmp_path: Path) -> None:
    """The victim 0 masks its vector with 1 only, twice; all others hear that 1 was lost.

    Its private mask and the key of 1 then open it alone.
    """
    server = HostileServer(tmp_path, 4)
    server.begin(range(4))

    def attack() -> np.ndarray:
        server.collect(0, sources=[1, 1])
        for who in (1, 2, 3):
            server.collect(who)
        for who in (1, 2, 3):
            server.unmask(who, [0, 2, 3], [1])
        return server.open({0})

    with pytest.raises(RefusedError, match="key shares of other clients than this one's neighbour"):
        assert np.allclose(attack(), server.vectors[0], atol=1e-9)


def test_a_part_of_the_neighbours(tmp_path: Path) -> None:
    """The victims 0 and 1 mask their vectors with each other and with 2 only, which then is lost:
    the sum of the two opens."""
    server = HostileServer(tmp_path, 5, "on(threshold=0.6)")
    server.begin(range(5))

    def attack() -> np.ndarray:
        server.collect(0, sources=[1, 2])
        server.collect(1, sources=[0, 2])
        for who in (2, 3, 4):
            server.collect(who)
            server.unmask(who, [0, 1, 3], [2])
        return server.open({0, 1})

    with pytest.raises(RefusedError, match="key shares of other clients than this one's neighbour"):
        assert np.allclose(attack(), server.sum_of([0, 1]), atol=1e-9)


def test_masking_keys_of_the_servers_own(tmp_path: Path) -> None:
    """The victim masks with keys that the server has made, and encrypts with the true ones."""
    server = HostileServer(tmp_path, 4)
    server.exchange_keys(range(4))
    pairs = {other: generate_key_pairs() for other in (1, 2, 3)}
    false = {
        other: [public_key_to_bytes(public), server.keys[other][1]]
        for other, (_, public) in pairs.items()
    }
    server.share_keys(forged={0: false})

    def attack() -> np.ndarray:
        for who in range(4):
            server.collect(who)
        for who in range(4):
            server.unmask(who, range(4), [])
        return server.open({0}, {other: private for other, (private, _) in pairs.items()})

    with pytest.raises(RefusedError, match="made for another round, other clients or other keys"):
        assert np.allclose(attack(), server.vectors[0], atol=1e-9)


# A server that answers in the clients' names


def impersonate(server: HostileServer) -> np.ndarray:
    """Give the victim 0 keys of the server's own in place of all others', and read what it sends.

    The shares of its keys are then encrypted for the server, and its masks are the server's too.
    """
    server.exchange_keys(range(4))
    masking, sealing = ({other: generate_key_pairs() for other in (1, 2, 3)} for _ in "12")
    false = {
        other: [public_key_to_bytes(masking[other][1]), public_key_to_bytes(sealing[other][1])]
        for other in (1, 2, 3)
    }
    own, victim = server.keys[0], node_id(0)
    server.share_keys(forged={0: false})
    for other, (private, _) in sealing.items():
        pair = generate_shared_key(private, bytes_to_public_key(own[1]))
        received = decrypt(pair, server.sealed[0, other][:-TAG])
        server.seeds[0].append(share_keys_plaintext_separate(received)[2])
        sealed = encrypt(pair, share_keys_plaintext_concat(node_id(other), victim, b"", b""))
        parts = (server.circle.digest, false[other][0], own[0], sealed)
        server.sealed[other, 0] = sealed + make_tag(pair, "shares", node_id(other), victim, *parts)
    server.collect(0)
    return server.open({0}, {other: private for other, (private, _) in masking.items()})


def test_clients_that_do_not_know_each_other_can_be_impersonated(tmp_path: Path) -> None:
    """What secure aggregation cannot promise without keys that were exchanged beforehand."""
    server = HostileServer(tmp_path, 4)
    assert np.allclose(impersonate(server), server.vectors[0], atol=1e-9)


def test_clients_that_know_each_other_cannot_be_impersonated(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4, node_configs=exchange_long_term_keys(tmp_path, 4))
    with pytest.raises(RefusedError, match=r"client \d are not signed with the key in \d\.pub"):
        impersonate(server)
    everybody = opened(server, [0, 1, 2, 3], [0, 1, 2, 3])
    assert np.allclose(everybody, server.sum_of(range(4)), atol=1e-9)


def test_a_client_that_signs_nothing_is_refused_by_those_who_insist(tmp_path: Path) -> None:
    configs = exchange_long_term_keys(tmp_path, 4)
    server = HostileServer(tmp_path, 4, node_configs={**configs, 2: {}})
    with pytest.raises(RefusedError, match=r"client 2 are not signed with the key in 2\.pub"):
        server.begin(range(4))


def test_a_key_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("junk")
    for name in ("0", "nowhere"):
        config = {"secagg-key": str(tmp_path / name)}
        server = HostileServer(tmp_path, 4, node_configs={0: config})
        with pytest.raises(RefusedError, match=r"cannot be read .* take OpenSSH files") as refused:
            server.begin(range(4))
        assert str(tmp_path) not in str(refused.value)


# Sums of fewer than agreed


STORIES = {
    who: [3 + who % 3, 3 + (who + 1) % 3] for who in range(6)
}  # who is lost, says the server


def test_another_story_for_each_client(tmp_path: Path) -> None:
    """Of six clients, each hears that two of 3, 4 and 5 were lost: each of the three is lost for
    four clients, which is enough for its key, and the sum of three opens where four must remain."""
    server = HostileServer(tmp_path, 6, "on(threshold=0.6)")
    server.begin(range(6))
    for who in range(6):
        server.collect(who)

    def attack() -> np.ndarray:
        for who, lost in STORIES.items():
            server.unmask(who, set(range(6)) - set(lost), lost)
        return server.open({0, 1, 2})

    with pytest.raises(RefusedError, match="1 neighbours agree on which clients are left"):
        assert np.allclose(attack(), server.sum_of([0, 1, 2]), atol=1e-9)


def test_tags_of_another_story_do_not_count(tmp_path: Path) -> None:
    """As above, with what the clients say about their own stories."""
    server = HostileServer(tmp_path, 6, "on(threshold=0.6)")
    server.begin(range(6))
    for who in range(6):
        server.collect(who)
    for who in range(3):
        server.agree(who, set(range(6)) - set(STORIES[who]))
    for who in range(3):
        with pytest.raises(RefusedError, match="1 neighbours agree on which clients are left, and"):
            server.unmask(who, set(range(6)) - set(STORIES[who]), STORIES[who])


def test_a_client_that_says_nonsense_does_not_stop_the_others(tmp_path: Path) -> None:
    """Of six clients one is lost and one sends a false tag; four that agree are enough."""
    server = HostileServer(tmp_path, 6, "on(threshold=0.6)")
    server.begin(range(6))
    for who in range(5):
        server.collect(who)
    for who in range(5):
        server.agree(who, range(5))
    for who in range(4):
        server.tags[who][4] = b"nonsense"
        server.unmask(who, range(5), [5])
    assert np.allclose(server.open(set(range(5))), server.sum_of(range(5)), atol=1e-9)


def test_few_neighbours_always_have_to_agree(tmp_path: Path) -> None:
    """A client sees only a part of the circle: that none of its neighbours is lost says little."""
    server = HostileServer(tmp_path, 14, "on(neighbour_share=0.1)")
    server.begin(range(14))
    server.collect(0)
    with pytest.raises(RefusedError, match="1 neighbours agree on which clients are left, and 7"):
        server.unmask(0, server.neighbours(0), [])


def test_a_client_says_once_who_is_left(tmp_path: Path) -> None:
    """Otherwise its word for one story could be passed on with another."""
    server = HostileServer(tmp_path, 5)
    server.begin(range(5))
    with pytest.raises(RefusedError, match="agree on who is left once, after they have trained"):
        server.agree(0, [0, 1, 2, 3])
    for who in range(5):
        server.collect(who)
    server.agree(0, [0, 1, 2, 3])
    with pytest.raises(RefusedError, match="agree on who is left once"):
        server.agree(0, [0, 1, 2, 4])
    with pytest.raises(RefusedError, match="other clients than the clients have agreed on"):
        server.unmask(0, range(5), [])


@pytest.mark.parametrize(
    ("active", "dead", "reason"),
    [
        ([0, 1, 2, 3, 4], [1], "both keys of a client"),
        ([0, 1, 2, 3], [], "keys of other clients than this one's neighbours"),
        ([0, 1, 2, 3, 3], [4], "keys of other clients than this one's neighbours"),
        ([1, 2, 3, 4], [0], "without this client"),
        ([0, 1], [2, 3, 4], "open a sum of 2 clients, and at least 3"),
        ([0, 1, 2], [3, 4], "too few neighbours"),
    ],
)
def test_who_is_left_must_be_possible(
    tmp_path: Path, active: list[int], dead: list[int], reason: str
) -> None:
    server = HostileServer(tmp_path, 5)
    server.begin(range(5))
    server.collect(0)
    with pytest.raises(RefusedError, match=reason):
        server.unmask(0, active, dead)


def test_the_server_cannot_seat_clients_in_groups(tmp_path: Path) -> None:
    """With few neighbours, two closed groups of eleven could be opened one by one."""
    server = HostileServer(tmp_path, 22, "on(neighbour_share=0.1)")
    server.exchange_keys(range(22))
    server.take_seats()
    assert server.plan.shares == 11
    groups = {who: set(range(11)) if who < 11 else set(range(11, 22)) for who in range(22)}

    def attack() -> np.ndarray:
        server.share_keys(groups)
        for who in range(22):
            server.collect(who)
        for who in range(11):
            server.unmask(who, range(11), [])
        return server.open(set(range(11)))

    with pytest.raises(
        RefusedError, match="other neighbours of this client than those that follow"
    ):
        assert np.allclose(attack(), server.sum_of(range(11)), atol=1e-9)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"token": "../../elsewhere"}, "round 1 of run '../../elsewhere' is none"),
        ({"round": "1"}, "round '1' of run '0123456789abcdef' is none"),
        ({"partitions": [0, 1, 2, 2]}, "list of a round's clients is malformed"),
        ({"partitions": [0, 1, 2]}, "list of a round's clients is malformed"),
        ({"nodes": [1, 2, 3, 4]}, "names this client under another partition"),
        ({"nodes": [node_id(0)], "partitions": [0]}, "another number of clients than it says"),
        ({"partitions": [1, 0, 2, 3]}, "names this client under another partition"),
    ],
)
def test_the_list_of_clients_must_be_true(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    server = HostileServer(tmp_path, 4)
    server.exchange_keys(range(4))
    nodes = list(map(node_id, range(4)))
    told = {"token": TOKEN, "round": 1, "nodes": nodes, "partitions": [0, 1, 2, 3], **changed}
    with pytest.raises(RefusedError, match=reason):
        server.ask(0, Stage.SETUP, server.settings(), **{CIRCLE: ConfigRecord(told)})


def test_a_request_that_lacks_something_is_refused_with_a_sentence(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4)
    server.exchange_keys(range(4))
    with pytest.raises(RefusedError, match=r"the server's request is malformed \(KeyError"):
        server.ask(0, Stage.SETUP, server.settings())


def test_clients_must_have_been_told_the_same(tmp_path: Path) -> None:
    """Client 3 hears that client 2 has the partition of client 4: it finds out from the shares."""
    server = HostileServer(tmp_path, 5)
    server.exchange_keys(range(4))
    others = {node_id(who): {2: 4}.get(who, who) for who in range(4)}
    false = Circle.gather(TOKEN, 1, others).write()
    answer = server.ask(3, Stage.SETUP, server.settings(), **{CIRCLE: false})
    server.keys[3] = [answer[Key.PUBLIC_KEY_1], answer[Key.PUBLIC_KEY_2]]  # type: ignore[list-item]
    server.share_keys()
    for who in range(4):
        with pytest.raises(RefusedError, match="made for another round, other clients or other"):
            server.collect(who)


def test_keys_of_one_round_do_not_serve_another(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4)
    server.begin(range(4))
    server.round = 2
    with pytest.raises(RefusedError, match=r"asks to train round 2 .* the keys are for round 1"):
        server.collect(0)


# The same round twice


def opened(
    server: HostileServer, clients: list[int], left: list[int], number: int = 1
) -> np.ndarray:
    """Do a round by the rules with some clients, of which some are left."""
    server.begin(clients, number)
    for who in left:
        server.collect(who)
    if left != clients:
        for who in left:
            server.agree(who, left)
    for who in left:
        server.unmask(who, left, sorted(set(clients) - set(left)))
    return server.open(set(left))


def test_the_same_round_without_one_client(tmp_path: Path) -> None:
    """Training is deterministic: the difference of the two sums is the update of client 4. The
    nodes were started again in between."""
    server = HostileServer(tmp_path, 5)
    everybody = opened(server, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    server.restart_nodes()
    with pytest.raises(RefusedError, match="has opened round 1 of this run with the clients 0 1 2"):
        assert np.allclose(
            everybody - opened(server, [0, 1, 2, 3], [0, 1, 2, 3]), server.vectors[4]
        )
    with pytest.raises(RefusedError, match="opens it for no others"):
        opened(server, [0, 1, 2, 3, 4], [0, 1, 2, 3])
    assert np.array_equal(opened(server, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]), everybody)
    opened(server, [0, 1, 2, 3], [0, 1, 2, 3], number=2)


def test_a_try_that_opened_nothing_may_be_repeated_with_others(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 5)
    server.begin(range(5))
    for who in range(4):
        server.collect(who)
    for who in range(3):
        server.agree(who, range(4))
    assert np.allclose(
        opened(server, [0, 1, 2, 3], [0, 1, 2, 3]), server.sum_of(range(4)), atol=1e-9
    )


def test_a_run_has_one_token(tmp_path: Path) -> None:
    """With another token, a round that was opened would count as a new one."""
    server = HostileServer(tmp_path, 4)
    opened(server, [0, 1, 2, 3], [0, 1, 2, 3])
    with pytest.raises(RefusedError, match="gives one run two tokens"):
        server.begin(range(4), token="00")


def test_a_damaged_record_opens_nothing(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4)
    opened(server, [0, 1, 2, 3], [0, 1, 2, 3])
    for path in tmp_path.rglob("round-00001.json"):
        path.write_text("")
    with pytest.raises(RefusedError, match=r"record of round 1 \(round-00001.json\) is damaged"):
        opened(server, [0, 1, 2, 3], [0, 1, 2, 3])
