"""A dishonest server against honest clients: what it may ask, and which sums it can open.

Every attack ends with the vectors that it was after, unless a client refuses to take part in it.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.client.secagg.notes import forget
from fedmirage.common.secagg import keys
from fedmirage.common.secagg import protocol as wire
from fedmirage.common.secagg.keys import draw_private_key, find_public_key, seal
from fedmirage.common.secagg.protocol import Try, write_number
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.secagg.shamir import SHARE
from fedmirage.common.settings.config import configure
from tests.support.hostile import TOKEN, HostileServer, RefusedError, TooFewError
from tests.support.secure_rounds import exchange_long_term_keys

OTHER = "fedcba9876543210"  # another token


def test_an_honest_server_opens_the_sum(tmp_path: Path) -> None:
    """The tool works: without it, a refused attack would prove nothing."""
    server = HostileServer(tmp_path, 4)
    server.begin(range(4))
    for who in range(4):
        server.collect(who)
    for who in range(3):  # three of four shares are enough
        server.unmask(who, range(4))
    assert np.array_equal(server.open({0, 1, 2, 3}), server.sum_of(range(4)))


def test_an_honest_server_does_without_a_lost_client(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 5)
    assert np.array_equal(opened(server, range(5), range(4)), server.sum_of(range(4)))


# The table of accomplices


def open_alone(server: HostileServer, clients: list[int]) -> np.ndarray:
    """Try to open both keys of client 0, and so its vector, with what accomplices know.

    Some honest clients, client 0 among them, hear that nobody was lost, and give shares of its own
    mask; the others hear that it was lost, and give shares of its masking key.
    """
    server.begin(clients)
    for who in clients:
        server.collect(who)
    server.take_shares(0)
    honest = [who for who in clients if who not in server.accomplices]
    enough = server.quorum - len(server.accomplices & set(clients))
    without = [who for who in clients if who != 0]
    for who in honest[:enough]:
        server.unmask(who, clients)
    for who in honest[enough:]:
        server.agree(who, without)
    for who in honest[enough:]:
        server.unmask(who, without, helped=True)
    return server.open({0})


CASES = [(4, 4), (5, 5), (5, 4), (6, 6), (6, 5), (10, 10), (10, 7), (20, 20), (20, 14), (50, 34)]


@pytest.mark.parametrize(("drawn", "asked"), CASES)
def test_the_promised_accomplices_open_nothing(tmp_path: Path, drawn: int, asked: int) -> None:
    """Whatever number of clients the server chooses for a try: of 10 with a try of 7, three
    accomplices used to open a client's update."""
    number = SecAggOn().accomplices(drawn)
    server = HostileServer(tmp_path, drawn, accomplices=range(1, 1 + number))
    with pytest.raises((RefusedError, TooFewError)):
        open_alone(server, list(range(asked)))


@pytest.mark.parametrize("drawn", [4, 5, 6, 10, 20])
def test_one_more_opens_an_update(tmp_path: Path, drawn: int) -> None:
    """So the table promises no less than what holds, and the attack is one."""
    number = SecAggOn().accomplices(drawn) + 1
    server = HostileServer(tmp_path, drawn, accomplices=range(1, 1 + number))
    assert np.array_equal(open_alone(server, list(range(drawn))), server.vectors[0])


@pytest.mark.parametrize("drawn", [4, 5, 6, 10, 20, 50])
def test_a_try_below_the_threshold_gets_no_vector(tmp_path: Path, drawn: int) -> None:
    server = HostileServer(tmp_path, drawn)
    needed = SecAggOn().quorum(drawn)
    with pytest.raises(
        RefusedError, match=f"the {drawn} of a round there must be at least {needed}"
    ):
        server.begin(range(needed - 1))


def test_the_server_does_not_choose_who_is_drawn(tmp_path: Path) -> None:
    """Four of 20: the seed decides who, so that accomplices are not asked at will."""
    server = HostileServer(tmp_path, 20, participation=0.2)
    with pytest.raises(RefusedError, match="not among the clients that are drawn for round 1"):
        server.begin(range(4))


def test_a_secret_draw_cannot_be_repeated(tmp_path: Path) -> None:
    server = HostileServer(
        tmp_path, 20, participation=0.2, dp="central(clip=1, noise=1)", methods="fedavg"
    )
    assert np.array_equal(opened(server, range(4), range(4)), server.sum_of(range(4)))
    server.exchange_keys(range(4), number=2)
    server.keys[99] = server.keys.pop(3)
    request = {**Try(server.task, server.keys).write(), "signatures": [b""] * 4}
    with pytest.raises(RefusedError, match="client 99 is not among the clients"):
        server.ask(0, wire.SHARE, request)


# One update alone


def test_a_part_of_the_clients(tmp_path: Path) -> None:
    """The victims 0 and 1 would mask their vectors with each other and with 2 only."""
    server = HostileServer(tmp_path, 5, "on(threshold=0.6)")
    server.begin(range(5))
    for sources in ([1, 2], [1, 1, 2, 3], [1, 2, 3]):
        with pytest.raises(RefusedError, match="key shares of"):
            server.collect(0, sources=sources)


def test_masking_keys_of_the_servers_own(tmp_path: Path) -> None:
    """The victim masks with keys that the server has made, and seals with the true ones."""
    server = HostileServer(tmp_path, 4)
    server.exchange_keys(range(4))
    private = {other: draw_private_key() for other in (1, 2, 3)}
    false = {
        other: find_public_key(key) + server.keys[other][32:] for other, key in private.items()
    }
    server.share_keys(forged={0: false})
    with pytest.raises(RefusedError, match="made for another round, other clients or other keys"):
        server.collect(0)


def test_another_model_for_one_client(tmp_path: Path) -> None:
    """If the others got a model on which training moves nothing, the sum would be one's update."""
    server = HostileServer(tmp_path, 4)
    server.begin(range(4))
    server.collect(0)
    with pytest.raises(RefusedError, match=r"for round 1 of run .*, or for another model"):
        server.collect(1, model=[np.ones(3, np.float32)])


def test_other_settings_for_some_clients(tmp_path: Path) -> None:
    """If client 1 believed in a lower threshold, it would open what the others would not."""
    server = HostileServer(tmp_path, 5)
    server.exchange_keys(range(5))
    server.told = {1: configure({"secagg": "on(threshold=0.51)", "clients": 5})}
    server.share_keys()
    for who in (0, 1):
        with pytest.raises(RefusedError, match="were made for another round, other clients"):
            server.collect(who)


# A server that answers in the clients' names


def impersonate(server: HostileServer) -> np.ndarray:
    """Give the victim 0 keys of the server's own in place of all others', and read what it sends.

    The shares of its keys are then sealed for the server, and its masks are the server's too.
    """
    server.exchange_keys(range(4))
    private = {other: [draw_private_key() for _ in range(3)] for other in (1, 2, 3)}
    false = {other: b"".join(map(find_public_key, own)) for other, own in private.items()}
    server.share_keys(forged={0: false})
    told: Try = server.tries[0]
    for other, own in private.items():
        key = keys.agree(own[wire.SEALING], told.key(0, wire.SEALING))
        there, back = (
            (b"shares", told.digest, write_number(one), write_number(two))
            for one, two in ((0, other), (other, 0))
        )
        content = keys.unseal(key, server.sealed[0, other], *there)
        assert content is not None
        server.seeds[0][told.points[other]] = content[:SHARE]
        server.sealed[other, 0] = seal(key, bytes(2 * SHARE), *back)
    server.collect(0)
    return server.open({0}, {other: own[wire.MASKING] for other, own in private.items()})


def test_clients_that_do_not_know_each_other_can_be_impersonated(tmp_path: Path) -> None:
    """What secure aggregation cannot promise without keys that were exchanged beforehand."""
    server = HostileServer(tmp_path, 4)
    assert np.array_equal(impersonate(server), server.vectors[0])


def test_clients_that_know_each_other_cannot_be_impersonated(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4, node_configs=exchange_long_term_keys(tmp_path, 4))
    with pytest.raises(RefusedError, match=r"client \d are not signed with the key in \d\.pub"):
        impersonate(server)
    assert np.array_equal(opened(server, range(4), range(4)), server.sum_of(range(4)))


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


STORIES = {  # who is left, says the server
    who: sorted(set(range(6)) - {3 + who % 3, 3 + (who + 1) % 3}) for who in range(6)
}


def test_another_story_for_each_client(tmp_path: Path) -> None:
    """Of six clients, each hears that two of 3, 4 and 5 were lost: each of the three is lost for
    four clients, which is enough for its key, and the sum of three opens where four must remain."""
    server = HostileServer(tmp_path, 6, "on(threshold=0.6)")
    server.begin(range(6))
    for who in range(6):
        server.collect(who)

    def attack() -> np.ndarray:
        for who, left in STORIES.items():
            server.unmask(who, left)
        return server.open({0, 1, 2})

    with pytest.raises(RefusedError, match="0 other clients agree on who is left, and 3 must"):
        attack()
    for who in range(3):
        server.agree(who, STORIES[who])
    with pytest.raises(RefusedError, match="0 other clients agree on who is left"):
        attack()


def test_a_client_that_says_nonsense_does_not_stop_the_others(tmp_path: Path) -> None:
    """Of six clients one is lost and one sends a false tag; four that agree are enough."""
    server = HostileServer(tmp_path, 6, "on(threshold=0.6)")
    server.begin(range(6))
    for who in range(5):
        server.collect(who)
    for who in range(5):
        server.agree(who, range(5))
    for who in range(4):
        server.tags[who][4] = bytes(32)
        server.unmask(who, range(5))
    assert np.array_equal(server.open(set(range(5))), server.sum_of(range(5)))


def test_a_client_says_once_who_is_left(tmp_path: Path) -> None:
    """Otherwise its word for one story could be passed on with another; a crash changes nothing."""
    server = HostileServer(tmp_path, 5)
    server.begin(range(5))
    with pytest.raises(RefusedError, match="asks this client to agree before it may"):
        server.agree(0, [0, 1, 2, 3])
    for who in range(5):
        server.collect(who)
    before = deepcopy(server.contexts[0])
    server.agree(0, [0, 1, 2, 3])
    server.contexts[0] = before  # the reply has left, and the state was not saved
    with pytest.raises(RefusedError, match="has said already who is left"):
        server.agree(0, [0, 1, 2, 4])
    with pytest.raises(RefusedError, match="other clients than the clients have agreed on"):
        server.unmask(0, range(5))


# What a request must hold


def test_equal_and_weak_keys_are_refused(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4)
    for spoiled, reason in ((bytes(96), "not proper ones"), (None, "keys are the same")):
        server.exchange_keys(range(4))
        server.keys[2] = spoiled if spoiled is not None else server.keys[1]
        with pytest.raises(RefusedError, match=reason):
            server.share_keys()


def test_keys_of_one_round_do_not_serve_another(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4)
    server.begin(range(4))
    server.round = 2
    with pytest.raises(RefusedError, match=r"asks to train round 2 .* the keys are for round 1"):
        server.collect(0)


# The same round twice


def opened(
    server: HostileServer, clients: Any, left: Any, number: int = 1, token: str = TOKEN
) -> np.ndarray:
    """Do a round by the rules with some clients, of which some are left."""
    server.begin(clients, number, token)
    for who in left:
        server.collect(who)
    if list(left) != list(clients):
        for who in left:
            server.agree(who, left)
    for who in left:
        server.unmask(who, left)
    return server.open(set(left))


def test_the_same_round_without_one_client(tmp_path: Path) -> None:
    """Training is deterministic: the difference of the two sums is the update of client 4. The
    nodes were started again in between."""
    server = HostileServer(tmp_path, 5)
    everybody = opened(server, range(5), range(5))
    server.restart_nodes()
    with pytest.raises(RefusedError, match="has opened round 1 of this run for the clients 0 1 2"):
        opened(server, range(4), range(4))
    with pytest.raises(RefusedError, match="opens it for no others"):
        opened(server, range(5), range(4))
    assert np.array_equal(opened(server, range(5), range(5)), everybody)
    opened(server, range(4), range(4), number=2)


def test_the_same_round_in_another_run(tmp_path: Path) -> None:
    """A token is the server's choice; the model, the round and the data are what is repeated."""
    server = HostileServer(tmp_path, 5)
    opened(server, range(5), range(5))
    server.restart_nodes()
    with pytest.raises(
        RefusedError, match="already answered round 1 for this model; a second"
    ) as no:
        opened(server, range(4), range(4), token=OTHER)
    assert f"its owner may allow it with `fedmirage supernode --forget {TOKEN}`" in str(no.value)
    assert forget(tmp_path, TOKEN) == 5
    opened(server, range(4), range(4), token=OTHER)


def test_the_same_round_with_nearly_the_same_model(tmp_path: Path) -> None:
    """The difference of the two sums would be nearly the update of client 4."""
    server = HostileServer(tmp_path, 5)
    opened(server, range(5), range(5))
    server.model = [server.model[0] + 1e-6]
    with pytest.raises(RefusedError, match="a second model for round 1, which this client has"):
        opened(server, range(4), range(4))


def test_a_repeated_round_gets_the_same_vector(tmp_path: Path) -> None:
    """Never a fresh one: whatever training gives now, what was sent is sent again, or nothing."""
    server = HostileServer(tmp_path, 4)
    first = opened(server, range(4), range(4))
    server.vectors = {who: vector + 1 for who, vector in server.vectors.items()}
    assert np.array_equal(opened(server, range(4), range(4)), first)
    for path in tmp_path.rglob("vector-*"):
        path.unlink()
    with pytest.raises(RefusedError, match="this node has already answered round 1 for this model"):
        opened(server, range(4), range(4))


def test_a_crash_gives_no_second_vector_under_the_same_masks(tmp_path: Path) -> None:
    """The reply has left, and the state of the node was not saved: the keys are still there."""
    server = HostileServer(tmp_path, 4)
    server.begin(range(4))
    before = deepcopy(server.contexts[0])
    server.collect(0)
    first = server.masked[0]
    server.contexts[0] = before
    server.vectors[0] = server.vectors[0] + 1
    server.collect(0)
    assert np.array_equal(server.masked[0], first)


def test_a_crash_does_not_open_another_sum(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 5, accomplices=[3])
    server.begin(range(5))
    for who in range(5):
        server.collect(who)
    before = deepcopy(server.contexts[0])
    server.unmask(0, range(5))
    server.contexts[0] = before
    for who in (1, 2):
        server.agree(who, [0, 1, 2, 3])
    with pytest.raises(RefusedError, match="opens it for no others"):
        server.agree(0, [0, 1, 2, 3])
    with pytest.raises(RefusedError, match="opens it for no others"):
        server.unmask(0, [0, 1, 2, 3], helped=True)


def test_a_try_that_opened_nothing_may_be_repeated_with_others(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 5)
    server.begin(range(5))
    for who in range(4):
        server.collect(who)
    for who in range(3):
        server.agree(who, range(4))
    assert np.array_equal(opened(server, range(4), range(4)), server.sum_of(range(4)))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"{}"])
def test_an_unreadable_note_was_never_written(tmp_path: Path, content: bytes) -> None:
    """A disk that is full may leave one; nothing has left after it, and the run goes on."""
    server = HostileServer(tmp_path, 4)
    sum_of_all = opened(server, range(4), range(4))
    for path in tmp_path.rglob("*.json"):
        path.write_bytes(content)
    assert np.array_equal(opened(server, range(4), range(4)), sum_of_all)
    assert forget(tmp_path, TOKEN) == 4


def test_what_a_killed_node_was_noting_is_removed(tmp_path: Path) -> None:
    server = HostileServer(tmp_path, 4)
    sum_of_all = opened(server, range(4), range(4))
    noted = [*tmp_path.rglob("*.json")]
    assert len({path.parent for path in noted}) == 8  # of the run and of all runs, per client
    for path in noted:
        path.rename(path.with_name(f".{path.name}.{2**22 + 1}.tmp"))  # no process has such an id
    assert np.array_equal(opened(server, range(4), range(4)), sum_of_all)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_full_disk_is_a_sentence_and_nothing_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = HostileServer(tmp_path, 4)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    server.begin(range(4))
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(RefusedError, match=r"cannot write down what binds it \(No space left"):
            server.collect(0)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    for who in range(4):
        server.collect(who)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(RefusedError, match="so it sends nothing; free some space"):
            server.unmask(0, range(4))
    for who in range(4):
        server.unmask(who, range(4))
    assert np.array_equal(server.open(set(range(4))), server.sum_of(range(4)))
