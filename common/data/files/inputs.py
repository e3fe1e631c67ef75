"""Reads inputs without labels, for a trained model: in the way in which its run read its data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.common.data.files.decoding import arrange, open_picture
from fedmirage.common.data.files.formats.npz import to_bytes, to_floats
from fedmirage.common.data.files.places import ENDINGS, is_picture, list_pictures
from fedmirage.common.data.files.raw import RawSplit, Values, reading
from fedmirage.common.data.reading import Reading
from fedmirage.common.errors import DataError
from fedmirage.common.own_code import find, hash_source

ARRAYS = (".npz", ".npy")
ROWS = (".csv", ".parquet", ".jsonl")
KEYS = ("inputs", "images", "x", "test_images", "x_test")  # of an .npz file that holds several


@dataclass(frozen=True)
class Inputs:
    """Inputs as bytes of pictures or as floats, each with a name: its file, and its row there."""

    names: tuple[str, ...]
    values: Values  # (samples, channels, ...)


@dataclass(frozen=True)
class InputReader:
    """Reads the inputs of one model."""

    known: Reading | None  # None where the model's file does not say
    shape: tuple[int, ...]
    pictures: bool  # whether the network takes pictures
    encoder: str = ""  # the encoder that the caller allows to be imported
    schema: str = ""  # of a table: what its columns mean

    @property
    def how(self) -> Reading:
        """How the run read its inputs; nothing is assumed of pictures in files."""
        return self.known or Reading()

    def read(self, paths: Sequence[str | Path]) -> Inputs:
        """Read pictures, folders of them, arrays and rows, in the order in which they are given."""
        parts = [self.read_file(path) for path in list_inputs(paths)]
        names = tuple(name for part in parts for name in part.names)
        return Inputs(names, np.concatenate([part.values for part in parts]))

    def read_file(self, path: Path) -> Inputs:
        """Read one file."""
        if path.suffix.lower() in ARRAYS:
            return self.read_arrays(path)
        if self.schema:
            return self.read_table(path)
        if path.suffix.lower() in ROWS:
            return self.read_rows(path)
        if not self.pictures and not self.how.encoder:
            raise DataError(
                f"{str(path)!r} is not what this model takes: arrays in a .npz or .npy file"
                f"{', or rows in a .csv file' if len(self.shape) == 1 else ''}"
            )
        if self.how.text:
            raise DataError(
                f"{str(path)!r} holds no texts that can be read; put them into a column"
                f" {self.how.text!r} of a file that ends with {', '.join(ROWS)}"
            )
        return self.read_picture(path)

    def read_picture(self, path: Path) -> Inputs:
        """Read one picture, for the network or for its encoder."""
        if self.known is None:
            raise DataError(
                "the model file was written by an earlier version and does not say how its run read"
                " pictures; add the run's dataset line (--dataset, or dataset= of load_model)"
            )
        pixels = open_picture(str(path), path, self.how.form)[None]
        if self.how.encoder:
            return self.encode((str(path),), pixels)
        self.check_picture(str(path), pixels.shape[1:])
        return Inputs((str(path),), pixels)

    def check_picture(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse a picture of another size or colour, which a run would have refused too."""
        if shape == self.shape:
            return
        seen, wanted = map(_describe_size, (shape, self.shape))
        raise DataError(
            f"{name} is {seen}, and this model was trained on pictures of {wanted}, which its run"
            " took as they are: convert it, or add --dataset with size= and channels= if all are"
            " to be converted"
        )

    def read_arrays(self, path: Path) -> Inputs:
        """Read inputs, or vectors that an encoder has made, from .npz or .npy."""
        with reading(path, "a file of arrays without pickled objects"):
            loaded: Any = np.load(path, allow_pickle=False)
            key = None if isinstance(loaded, np.ndarray) else _choose_array(path, loaded.files)
            values: Values = loaded if key is None else loaded[key]
        where = str(path) if key is None else f"{path}: {key}"
        found: Values = (
            arrange(to_bytes(where, values), self.how.form)
            if self.pictures
            else to_floats(where, values)
        )
        if found.shape[1:] != self.shape:
            seen, wanted = ("x".join(map(str, size)) for size in (found.shape[1:], self.shape))
            raise DataError(
                f"{where} holds inputs of the shape {seen}, and this model takes {wanted}; save"
                f" an array of the shape (samples, {', '.join(map(str, self.shape))})"
            )
        return Inputs(tuple(f"{path}[{row}]" for row in range(len(found))), found)

    def read_table(self, path: Path) -> Inputs:
        """Read rows as the schema says, also if they have labels, which are not looked at."""
        from fedmirage.common.data.tables.reading import TableReader
        from fedmirage.common.data.tables.schema import parse_schema

        reader = TableReader(path, parse_schema(self.schema), labelled=False)
        return Inputs(_name_rows(path, reader.rows), reader.read_unlabelled())

    def read_rows(self, path: Path) -> Inputs:
        """Read texts for the encoder, or rows of numbers."""
        from fedmirage.common.data.files.formats.texts import read_rows

        table = read_rows(path)
        names = _name_rows(path, len(table))
        if self.how.text:
            if self.how.text not in table.column_names:
                raise DataError(
                    f"{path} has no column {self.how.text!r}, only {', '.join(table.column_names)};"
                    " this model takes texts from a column of that name"
                )
            return self.encode(names, np.array(table[self.how.text].to_pylist(), dtype=object))
        if self.pictures or len(self.shape) != 1:
            raise DataError(f"{path} holds rows, and this model takes none; give it what it takes")
        return Inputs(names, self.read_numbers(path, table))

    def read_numbers(self, path: Path, table: Any) -> Values:
        """Take every column as one number of the input, in the order of the file."""
        if table.num_columns != self.shape[0]:
            raise DataError(
                f"{path} has {table.num_columns} columns, and this model takes {self.shape[0]}:"
                " give it those of the training data, in their order, without labels"
            )
        columns = [table[name].to_numpy() for name in table.column_names]
        for name, column in zip(table.column_names, columns, strict=True):
            if column.dtype.kind not in "biuf":
                raise DataError(f"{path}: column {name!r} holds {column.dtype}; write numbers")
        found: Values = np.stack(columns, axis=1).astype(np.float32)
        if np.isinf(found).any():
            raise DataError(f"{path} holds infinite or too large numbers; correct them")
        return found

    def encode(self, names: tuple[str, ...], given: Values) -> Inputs:
        """Run the model's encoder, if the caller allows it and it is the one of the run."""
        from fedmirage.common.data.files.formats.encoded import encode_split

        wanted = self.how.encoder
        if self.encoder != wanted:
            raise DataError(
                f"this model takes what the encoder {wanted!r} makes of texts or pictures, and a"
                f" file has nothing imported; if you trust that function, add --encoder {wanted}"
                " (encoder= in Python), or give its vectors in a .npz file"
            )
        if (own := hash_source(wanted)) != self.how.source:
            raise DataError(
                f"the encoder {wanted!r} has other source here than in the run ({own[:15]} instead"
                f" of {self.how.source[:15]}); install the version of the run"
            )
        encoder: Callable[[Any], Any] = find(wanted, "encoder")
        unlabelled = RawSplit(given, np.zeros(len(given), np.int64))
        values = encode_split(unlabelled, encoder, wanted).images
        if values.shape[1:] != self.shape:
            raise DataError(
                f"the encoder {wanted!r} makes vectors of {values.shape[1]} numbers here, and this"
                f" model takes {self.shape[0]}; use the encoder of the run"
            )
        return Inputs(names, values)


def list_inputs(paths: Sequence[str | Path]) -> list[Path]:
    """List the files that are named, and the pictures in folders and in those inside them."""
    if not paths:
        raise DataError("there are no inputs; name a file or a folder")
    return [file for path in paths for file in _list_files(Path(path).expanduser())]


def _list_files(path: Path) -> list[Path]:
    if not path.exists():
        raise DataError(f"there is no {str(path)!r}; check the path")
    if not path.is_dir():
        return [path]
    inside = [one for one in path.iterdir() if is_picture(one.name) and one.is_file()]
    files = sorted({*inside, *list_pictures(path)})
    if not files:
        raise DataError(
            f"the folder {str(path)!r} has no pictures in it ({', '.join(ENDINGS)}); name one that"
            " has, or the files themselves"
        )
    return files


def _name_rows(path: Path, count: int) -> tuple[str, ...]:
    return tuple(f"{path}:{row}" for row in range(1, count + 1))


def _describe_size(shape: tuple[int, ...]) -> str:
    channels, height, width = shape
    return f"{height}x{width} with {channels} channel{'s' * (channels > 1)}"


def _choose_array(path: Path, names: list[str]) -> str:
    """Choose the array of the inputs: the only one, or the one with a usual name."""
    usual = [key for key in KEYS if key in names]
    if len(names) != 1 and not usual:
        raise DataError(
            f"{path} has the arrays {', '.join(names) or 'none'}; call the inputs {KEYS[0]!r}"
        )
    return names[0] if len(names) == 1 else usual[0]
