"""The circle of a secure round: its order, its neighbours, and whether losses cut it apart."""

import itertools
import random
from collections import Counter

from fedmirage.common.secagg.circle import Circle
from fedmirage.common.secagg.settings import SecAggOn


def seat(clients: int, number: int = 1, first_node: int = 100, changed: int = -1) -> Circle:
    """A circle in which every client's lot is its partition, but for one that draws another."""
    nodes = {first_node + partition: partition for partition in range(clients)}
    lots = {node: b"another" if who == changed else b"%d" % who for node, who in nodes.items()}
    return Circle.gather("ab", number, nodes).seat(lots)


def order(circle: Circle) -> list[int]:
    return list(circle.partitions.values())


def test_seats_follow_from_lots_round_and_partitions() -> None:
    """Not from the ids of nodes, which change when nodes are started again."""
    assert order(seat(20)) == order(seat(20, first_node=5000))
    assert sorted(order(seat(20))) == list(range(20))
    assert order(seat(20)) != order(seat(20, number=2))
    assert [who for who in order(seat(20)) if who < 12] != order(seat(12))


def test_one_lot_changes_all_seats() -> None:
    """One honest client is enough: whoever else sits beside client 0 is then drawn anew."""
    beside = Counter[int]()
    for first_node in range(400):
        circle = Circle.gather("ab", 1, {who: who for who in range(8)})
        lots = dict.fromkeys(range(7), b"") | {7: b"%d" % first_node}
        beside.update(circle.seat(lots).neighbours(0, 3) - {0})
    # Each of the seven others is expected 800 / 7 = 114 times, with a deviation of about 9.
    assert all(70 < beside[who] < 160 for who in range(1, 8))


def test_what_is_written_is_read_again() -> None:
    """The server cannot say who sits where; a client's own record can."""
    gathered, seated = Circle.gather("ab", 1, {9: 1, 4: 0, 7: 2}), seat(5)
    assert Circle.read(gathered.write()) == gathered
    assert order(Circle.read(seated.write())) == [0, 1, 2, 3, 4]
    assert order(Circle.recall(seated.write())) == order(seated)
    assert Circle.recall(seated.write()).digest == seated.digest
    assert seated.digest != Circle.read(seated.write()).digest


def test_neighbours_are_mutual_and_as_many_as_shares() -> None:
    circle = seat(14)
    neighbours = {node: circle.neighbours(node, 9) for node in circle.partitions}
    assert all(node in found and len(found) == 9 for node, found in neighbours.items())
    assert all(node in neighbours[other] for node, found in neighbours.items() for other in found)
    assert circle.neighbours(100, 14) == set(circle.partitions)


def test_losses_that_cut_the_circle_apart_are_noticed() -> None:
    """Six clients, each with one neighbour on either side: without the first and the fourth there
    are two arcs."""
    circle = seat(6)
    first, second, third, _, fifth, sixth = circle.partitions
    assert circle.are_connected(set(circle.partitions), 3)
    assert circle.are_connected({first, second, third}, 3)
    assert not circle.are_connected({second, third, fifth, sixth}, 3)


def test_what_is_connected_is_found_by_walking_along_the_masks() -> None:
    rng, found = random.Random(0), Counter[bool]()
    for _ in range(300):
        circle, shares = seat(rng.randint(7, 15)), rng.choice([3, 5, 7])
        nodes = set(rng.sample(circle.nodes, rng.randint(2, len(circle.nodes))))
        groups = [{node} for node in nodes]
        for one, other in itertools.combinations(nodes, 2):
            if other in circle.neighbours(one, shares):
                both = [group for group in groups if group & {one, other}]
                groups = [group for group in groups if group not in both] + [set().union(*both)]
        assert circle.are_connected(nodes, shares) == (len(groups) == 1)
        found[len(groups) == 1] += 1
    assert min(found.values()) > 30


def test_every_plan_makes_two_shares_of_one_client_impossible() -> None:
    """2 threshold > shares, so that two groups of clients never open both masks of one."""
    for clients in range(3, 200):
        for share in (1.0, 0.3, 0.01):
            plan = SecAggOn(neighbour_share=share, threshold=0.51).key_plan(clients)
            assert plan.shares < 2 * plan.threshold < 2 * plan.shares
