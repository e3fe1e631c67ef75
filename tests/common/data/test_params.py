"""The names, their keys, and what is refused before any file is opened."""

import subprocess
import sys

import pytest

from fedmirage.common.data.catalogue.params import (
    DATASETS,
    EMBEDDED,
    OWN,
    DatasetParams,
    find_origin,
)
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.language import resolve_line, write

NEEDED = {"embeddings": {"of": "digits", "encoder": "mylab.nets:encode"}, "texts": {"path": "x"}}


def resolve(line: str) -> list[DatasetParams]:
    return resolve_line(line, DATASETS, "dataset")


@pytest.mark.parametrize("kind", DATASETS.values(), ids=lambda kind: kind.name)
def test_every_key_has_a_sentence_and_every_set_its_facts(kind: type[DatasetParams]) -> None:
    for name, field in kind.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
    assert kind.__doc__
    written = NEEDED.get(kind.name, {"path": "x"} if kind in OWN else {})
    params = kind(**written)
    card = params.about()
    if not written:
        assert card.shape
        assert not params.pictures or len(card.mean) == len(card.std) == card.shape[0]
        assert card.class_count
        files = find_origin(params).about()
        assert kind in EMBEDDED or (files.files and files.origin)


@pytest.mark.parametrize(
    ("split", "classes"),
    [("digits", 10), ("letters", 26), ("balanced", 47), ("bymerge", 47), ("byclass", 62)],
)
def test_emnist_counts_its_classes_by_split(split: str, classes: int) -> None:
    assert resolve(f"emnist(split='{split}')")[0].about().class_count == classes


def test_a_line_comes_back_as_it_was_written() -> None:
    line = (
        "digits(size=8), cifar10(mean=(0.1, 0.2, 0.3), std=0.5), parquet(path='a', label='tags',"
        " columns=('user',))"
    )
    assert ", ".join(write(params) for params in resolve(line)) == line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cifar", "did you mean 'cifar10'"),
        ("digits(channels=2)", "channels=2"),
        ("digits(size=0)", "size=0"),
        ("digits(std=0)", "above 0"),
        ("cifar10(std=(0.2, -1, 0.2))", "above 0"),
        ("mnist(limit=0)", "limit=0"),
        ("digits-multi(per_image=5)", "per_image=5"),
        ("emnist(split='upper')", "split='upper'"),
        ("imagefolder", "needs the key 'path'"),
        ("npz(path='a', test_share=1)", "test_share=1"),
        ("npz(path='a', classes=1)", "two classes or more"),
        ("npz(path='a', classes=('a', 'a'))", "named twice"),
        ("cifar10(mean='grey')", "cifar10(mean='grey'): write a number, or a tuple"),
        ("cifar10(std=(1, None, 1))", "write a number, or a tuple"),
        (
            "npz(path='a', classes='cat')",
            "npz(classes='cat'): write the number of classes, or a tuple",
        ),
        ("mnist(split='digits')", "no key 'split'"),
    ],
)
def test_bad_lines_get_a_sentence(line: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^dataset: ") as caught:
        resolve(line)
    assert words in str(caught.value)


def test_one_column_needs_no_comma() -> None:
    assert resolve("npz(path='a', columns='user')") == resolve("npz(path='a', columns=('user',))")


def test_importing_the_package_loads_neither_torch_nor_a_reader() -> None:
    heavy = {"torch", "sklearn", "scipy", "pyarrow", "PIL", "datasets", "flwr_datasets"}
    code = (
        f"import sys, fedmirage.common.data.catalogue.params; print(sorted({heavy} &"
        " set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
