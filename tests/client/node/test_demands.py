"""A node insists: on what a run must have, and on a budget over all runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from flwr.clientapp import ClientApp

from fedmirage.client.app import make_app
from fedmirage.client.node.demands import read_demands
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.server.run import run
from tests.support.inprocess import InProcessGrid, node_id
from tests.support.runs import SMALL, lines

DP = "central(clip=1, noise=2)"


def refusal(node: Mapping[str, Any], **settings: Any) -> str:
    """What the node says to a run with these settings; "" if it takes part."""
    try:
        read_demands(node).check(configure(settings), Path("none"))
    except FedmirageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("require", "settings", "unmet"),
    [
        ("", {}, ""),
        ("secagg", {"secagg": "on"}, ""),
        ("secagg", {}, "secagg"),
        ("secagg(clip<=8)", {"secagg": "on"}, ""),
        ("secagg(threshold>=0.9)", {"secagg": "on"}, "secagg(threshold>=0.9)"),
        ("secagg(threshold>=0.67)", {"secagg": "on"}, ""),
        ("secagg", {"secagg": "flower"}, "secagg"),
        ("secagg-flower", {"secagg": "flower"}, ""),
        ("secagg-flower", {"secagg": "on"}, ""),
        ("secagg-flower", {}, "secagg-flower"),
        ("secagg-flower(max_weight<=1000)", {"secagg": "flower"}, ""),
        (
            "secagg-flower(max_weight<=99)",
            {"secagg": "flower"},
            "secagg-flower(max_weight<=99)",
        ),
        ("dp", {"dp": DP}, ""),
        ("dp(noise>=2)", {"dp": DP}, ""),
        ("dp(noise>=2)", {"dp": "local(clip=1, noise=3)"}, ""),
        ("dp(noise>=2)", {"dp": "central(clip=1, noise=1.9)"}, "dp(noise>=2)"),
        ("dp(noise>=2, clip<=0.5)", {"dp": DP}, "dp(noise>=2, clip<=0.5)"),
        ("local", {"dp": DP}, "local"),
        ("central", {"dp": DP}, ""),
        ("secagg, dp(noise>=2)", {"dp": DP}, "secagg"),
        ("secagg, dp(noise>=2)", {}, "secagg and dp(noise>=2)"),
        ("SecAgg , DP( noise >= 2 )", {"secagg": "on", "dp": DP}, ""),
    ],
)
def test_what_is_required(require: str, settings: dict[str, Any], unmet: str) -> None:
    found = refusal({"require": require}, **settings)
    assert found.startswith(f"this node requires {unmet}, but the run has") if unmet else not found


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        ({"require": "secag"}, "nothing is called 'secag'; did you mean 'secagg'?"),
        ({"require": "dp(noise>2)"}, "cannot read 'noise>2'; write e.g. noise>=2"),
        ({"require": "dp(nois>=2)"}, "dp has no key 'nois'; did you mean 'noise'?"),
        ({"require": "dp(noise>=2"}, "a parenthesis is not closed"),
        ({"require": "dp(noise>=1e)"}, "write a number"),
        ({"budget": "much"}, "budget='much': write a number"),
        ({"budget": -1}, "budget=-1: write a number"),
        ({"budget": 1, "budget-delta": 2}, "budget-delta=2: write a number between 0 and 1"),
    ],
)
def test_a_demand_that_cannot_be_read_is_never_met(node: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_demands(node)
    assert any(sentence in problem for problem in error.value.problems)


def test_a_budget_is_spent_over_all_runs(tmp_path: Path) -> None:
    """Multiplier 1 costs epsilon 4.377 once and 6.6 twice."""
    demands, ledger = read_demands({"budget": 5}), tmp_path / "releases.jsonl"
    config = configure({"dp": DP})
    demands.check(config, ledger)
    Ledger(ledger).add(run="a", round=1, multiplier=1.0)
    with pytest.raises(FedmirageError, match="it has answered 1 times, and the next answer"):
        demands.check(config, ledger)
    with pytest.raises(FedmirageError, match="spends without limit"):
        demands.check(configure({}), ledger)


class Insisting(InProcessGrid):
    """One of the nodes has demands of its own."""

    def __init__(self, app: ClientApp, nodes: int, node_config: dict[str, Any]) -> None:
        super().__init__(app, nodes)
        self.contexts[node_id(0)].node_config |= node_config


def run_insisting(out: Path, node_config: dict[str, Any], **settings: Any) -> None:
    config = configure({"out": str(out), **SMALL, **settings})
    run(Insisting(make_app(config, out / "memory"), config.clients, node_config), config)


def test_a_run_that_gives_less_is_refused_by_the_node(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match=r"was refused: this node requires dp\(noise>=2\)"):
        run_insisting(tmp_path, {"require": "dp(noise>=2)"}, dp="central(clip=1, noise=1)")
    assert lines(tmp_path) == []


def test_a_node_leaves_when_its_budget_is_spent(tmp_path: Path) -> None:
    """Epsilon is 4.377 after one round and above 6 after two."""
    run_insisting(tmp_path, {"budget": 5}, dp=DP, rounds=2)
    first, second = lines(tmp_path)
    assert not first["refused"]
    assert [entry["partition"] for entry in second["refused"]] == [0]
    assert "privacy budget is epsilon 5" in second["refused"][0]["reason"]


def test_a_damaged_ledger_keeps_its_place_to_itself(tmp_path: Path) -> None:
    """What was spent is not known, so the node takes no part; only its own log says which file."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "client-00000-releases.jsonl").write_text("junk\n")
    with pytest.raises(FedmirageError, match="its data cannot be used; its own log") as refused:
        run_insisting(tmp_path, {"budget": 5}, dp=DP)
    assert str(tmp_path) not in str(refused.value)
