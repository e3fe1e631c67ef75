"""Texts and pictures that reach the networks as embeddings."""

import json
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fedmirage.common.data.cache import cache_folder
from fedmirage.common.data.loading import load
from fedmirage.common.errors import ConfigurationError, DataError, FedmirageError
from fedmirage.common.settings.config import configure
from tests.support.encoders import count_letters, shrink

ENCODERS = "tests.support.encoders"
WORDS = {"animal": ["cat", "goat", "bat", "toad"], "drink": ["tea", "chocolate", "cocoa", "mead"]}
ROWS = [(f"{word} {number}", kind) for kind in WORDS for word in WORDS[kind] for number in range(5)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))


def save_texts(path: Path, ending: str = "csv") -> str:
    """Write the words as a file, and return the line of its set."""
    file = path / f"words.{ending}"
    table = pa.table({"text": [row[0] for row in ROWS], "label": [row[1] for row in ROWS]})
    if ending == "parquet":
        pq.write_table(table, file)
    elif ending == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        file.write_text("text,label\n" + "".join(f"{text},{kind}\n" for text, kind in ROWS))
    return f"texts(path='{file}')"


def line_of(of: str, encoder: str) -> str:
    """Write the line of a set's embeddings."""
    return f'embeddings(of="{of}", encoder="{ENCODERS}:{encoder}")'


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_texts_of_every_kind_of_file(ending: str, tmp_path: Path) -> None:
    dataset = load(line_of(save_texts(tmp_path, ending), "count_letters"))
    assert dataset.shape == (8,)
    assert dataset.classes == ("animal", "drink")
    found = np.concatenate([dataset.train.images, dataset.test.images])
    assert sorted(map(bytes, found)) == sorted(
        map(bytes, count_letters([row[0] for row in ROWS]).numpy())
    )
    assert len(dataset.test) == 8  # a fifth of every class
    assert dataset.divided


def test_pictures_keep_their_splits_and_their_labels() -> None:
    plain, encoded = load("digits(size=8)"), load(line_of("digits(size=8)", "shrink"))
    assert np.array_equal(plain.test.labels, encoded.test.labels)
    expected = shrink(torch.tensor(np.array(plain.test.images))).numpy()
    assert np.array_equal(encoded.test.images, expected)
    assert not encoded.pictures


def test_domains_stay(tmp_path: Path) -> None:
    encoded = load(line_of("digits-domains(size=8)", "shrink"))
    assert encoded.domains == load("digits-domains(size=8)").domains
    assert "domain" in encoded.train.columns


def test_vectors_are_computed_once_and_only_their_owner_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = line_of(save_texts(tmp_path), "count_letters")
    first = load(line)
    (entry,) = cache_folder().iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in entry.iterdir()} == {0o600}
    monkeypatch.setattr(f"{ENCODERS}.count_letters", None)
    assert load(line).fingerprint == first.fingerprint


def test_an_encoder_that_changes_is_used_again(tmp_path: Path) -> None:
    """The hash of its source is part of what an entry of the cache is found by."""
    code = "import torch\ndef encode(texts):\n    return torch.full((len(texts), 2), {})\n"
    of, found = save_texts(tmp_path), []
    for number in (1.0, 2.0):
        folder = tmp_path / f"version-{number}"
        folder.mkdir()
        (folder / "own.py").write_text(code.format(number))
        found.append(load(f'embeddings(of="{of}", encoder="{folder}/own.py:encode")'))
    assert [one.train.images.flat[0] for one in found] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("encoder", "reason"),
    [
        ("too_few", r"returned the shape \(39, 8\) for 40 samples"),
        ("not_finite", "NaN or infinite values for 1 of 40 samples"),
        ("quoting", r"fails \(ValueError\); it takes a list of texts"),
        (
            "calling_home",
            "tried to use the network .* import its libraries at the top of its module",
        ),
        ("missing", "has nothing called 'missing'"),
    ],
)
def test_encoders_that_fail(encoder: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match=reason) as refused:
        load(line_of(save_texts(tmp_path), encoder))
    assert "cat 0" not in str(refused.value)


def test_one_width_for_all_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedmirage.common.data.files.formats.encoded.BATCH", 30)
    with pytest.raises(DataError, match="vectors of 2 different widths"):
        load(line_of(save_texts(tmp_path), "growing"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("words,label\na,b\n", "has no column 'text', only words, label; write text="),
        ("text,kind\na,b\n", "has no column 'label'"),
        ("text,label\n1,b\n2,c\n", "column 'text' holds int64, not texts"),
        ("text,label\na,\nb,c\n", "1 of the 2 values of 'label' are missing"),
    ],
)
def test_files_that_hold_no_texts(content: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text(content)
    with pytest.raises(DataError, match=reason):
        load(line_of(f"texts(path='{tmp_path}/words.csv')", "count_letters"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("texts(path='x.csv')", "holds texts, which no network here reads"),
        ("embeddings(of='digits', encoder='shrink')", 'write "module:function"'),
        ("embeddings(of='digit', encoder='a:b')", "did you mean 'digits'"),
        (line_of("digits(limit=3)", "shrink"), "write limit= for the embeddings"),
        (f"embeddings(of=\"{line_of('x', 'y')}\", encoder='a:b')".replace('"', "'"), "dataset"),
        ("embeddings(of='digits', encoder='os:system')", "belongs to Python itself"),
    ],
)
def test_lines_that_cannot_work(line: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        load(line)


def test_a_run_names_its_encoder_as_code_that_sites_decide_about() -> None:
    line = line_of("digits", "shrink")
    assert configure({"dataset": line, "model": "mlp"}).own_code == [f"{ENCODERS}:shrink"]
