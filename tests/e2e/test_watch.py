"""`--watch` with real runs: rounds appear in what is served, and in a browser."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import complaints, open_browser, visit, wait_for
from tests.support.commands import start, wait_until

SMALL = ("--dataset", "digits(limit=300)", "--local-steps", "3", "--clients", "3")
SMALL += ("--model", "mlp(hidden=8, layers=1)")


@contextmanager
def watched(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Start a command and return the address that it prints."""
    process = start(*arguments, *SMALL, "--watch")
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                yield process, found[0]
                break
        else:
            pytest.fail("it printed no address")
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=120)


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode())


def count_rounds(address: str) -> int:
    found: dict[str, Any] = json.loads(fetch(f"{address}data.json"))
    curves = found["plots"].get("group-1-curves")
    return len(curves["options"][0]["lines"][0]["mean"]) if curves else 0


def test_rounds_appear_while_a_run_is_under_way(tmp_path: Path) -> None:
    with watched("run", "--rounds", "200", "--out", str(tmp_path)) as (process, address):
        assert 'data-live="true"' in fetch(address)
        seen = [0]

        def has_grown() -> bool:
            seen.append(count_rounds(address))
            return seen[-1] > seen[-2] > 0

        wait_until(has_grown, 200, "two different rounds")
        assert process.poll() is None
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, output
    assert f"page: {tmp_path}/report.html" in output
    assert 'data-live="false"' in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_page_in_a_browser_updates_itself(tmp_path: Path) -> None:
    out = str(tmp_path / "comparison")
    arguments = ("compare", "--methods", "fedprox", "--rounds", "30", "--out", out)
    with open_browser(tmp_path / "profile") as browser, watched(*arguments) as (process, address):
        visit(browser, address)
        ready = "document.querySelector('#group-1-curves .js-plotly-plot') !== null"
        wait_for(browser, ready, 200)
        longest = (
            "Math.max(...document.querySelector('#group-1-curves .js-plotly-plot').data"
            ".map((trace) => trace.x.length))"
        )
        before = browser.execute_script(f"return {longest};")
        wait_for(browser, f"{longest} > {before}", 200)
        process.communicate(timeout=300)
        assert process.returncode == 0
        wait_for(browser, "document.getElementById('live').textContent.includes('ended')", 60)
        assert browser.execute_script(f"return {longest};") == 30  # nothing was lost at the end
        said = [text for text in complaints(browser) if "ERR_CONNECTION" not in text]
        assert said == []
