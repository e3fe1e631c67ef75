"""The circle of a secure round: its order, its neighbours, and whether losses cut it apart."""

from common.secagg.circle import Circle
from common.secagg.settings import SecAggOn

SEED = 7


def seat(clients: int, number: int = 1, first_node: int = 100) -> Circle:
    nodes = {first_node + partition: partition for partition in range(clients)}
    return Circle.seat("ab", number, nodes, SEED)


def test_the_order_follows_from_seed_round_and_partitions() -> None:
    """Not from the ids of nodes, which change when nodes are started again."""
    order = list(seat(20).partitions.values())
    assert order == list(seat(20, first_node=5000).partitions.values())
    assert sorted(order) == list(range(20))
    assert order != list(seat(20, number=2).partitions.values())
    assert [partition for partition in order if partition < 12] == list(
        seat(12).partitions.values()
    )


def test_what_is_written_is_read_again() -> None:
    circle = seat(5)
    read = Circle.read(circle.write(), SEED)
    assert read == circle
    assert read.digest == circle.digest
    assert Circle.read(circle.write(), SEED + 1).digest != circle.digest


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


def test_every_plan_makes_two_shares_of_one_client_impossible() -> None:
    """2 threshold > shares, so that two groups of clients never open both masks of one."""
    for clients in range(3, 200):
        for share in (1.0, 0.3, 0.01):
            plan = SecAggOn(neighbour_share=share, threshold=0.51).key_plan(clients)
            assert plan.shares < 2 * plan.threshold < 2 * plan.shares
