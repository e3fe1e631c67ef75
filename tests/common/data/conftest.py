"""Fixtures of the data tests."""

from pathlib import Path

import pytest


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, with a cache of its own beside it."""
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDMIRAGE_DATA", raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    return folder
