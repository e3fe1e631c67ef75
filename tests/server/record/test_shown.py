"""Reasons that several clients share are given once."""

from fedmirage.server.record.shown import fold, list_partitions


def test_equal_reasons_are_folded() -> None:
    """Three in a row make a range; two do not, because "0 to 1" says no less than "0, 1"."""
    reasons = {0: "late", 1: "late", 2: "late", 3: "diverged", 5: "late", 6: "late"}
    refused = [{"partition": who, "reason": why} for who, why in reasons.items()]
    assert fold(refused) == {"clients 0 to 2, 5, 6": "late", "client 3": "diverged"}
    assert list_partitions(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and more"
