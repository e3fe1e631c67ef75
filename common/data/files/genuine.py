"""Finds the files that the authors of the published sets distribute, by their names."""

from pathlib import Path

from fedmirage.common.data.catalogue.derived import Cifar10C
from fedmirage.common.data.catalogue.params import DatasetParams, Emnist
from fedmirage.common.data.files.places import Source, homes, lazily

DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
# The reader in `files.formats`, and the files that lie side by side in one folder; USPS is
# distributed in two ways.
SIDE_BY_SIDE: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "svhn": (("published.svhn", ("train_32x32.mat", "test_32x32.mat")),),
    "synth-digits": (("published.svhn", ("synth_train_32x32.mat", "synth_test_32x32.mat")),),
    "usps": (
        ("published.usps_text", ("usps.bz2", "usps.t.bz2")),
        ("published.usps_h5", ("usps.h5",)),
    ),
}
# The reader in `files.formats`, the names of the archive and of the folder that it unpacks to, and
# what the set's own folder has in it if the archive was unpacked right there.
ARCHIVES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "cifar10": ("published.cifar10", ("cifar-10-batches-py", "cifar-10-python.tar.gz"), ()),
    "cifar100": ("published.cifar100", ("cifar-100-python", "cifar-100-python.tar.gz"), ()),
    "mnist-m": ("folders.mnist_m", ("mnist_m", "mnist_m.tar.gz"), ("mnist_m_train_labels.txt",)),
    "cinic10": ("folders.cinic10", ("CINIC-10.tar.gz",), ("train", "test")),
    "tiny-imagenet": (
        "folders.tiny_imagenet",
        ("tiny-imagenet-200", "tiny-imagenet-200.zip"),
        ("train", "val/images"),
    ),
}


def find_genuine(params: DatasetParams, data: Path) -> Source | None:
    """Find the genuine files of a set; None also for a set that exists as parquet only."""
    if isinstance(params, Emnist):
        return _emnist(params, data)
    if isinstance(params, Cifar10C):
        names = tuple(f"{name}.npy" for name in ("labels", *params.about().domains))
        return _side_by_side(params, data, "derived.corrupted.read_published", names, params)
    if params.name in ("mnist", "fashion-mnist"):
        return _mnist(params, data)
    if params.name in ARCHIVES:
        return _archive(params, data, *ARCHIVES[params.name])
    ways = SIDE_BY_SIDE.get(params.name, ())
    found = (_side_by_side(params, data, f"files.formats.{name}", files) for name, files in ways)
    return next(filter(None, found), None)


def _mnist(params: DatasetParams, data: Path) -> Source | None:
    """Find (Fashion-)MNIST: in the set's folder, or where torchvision or Debian puts it."""
    torchvision = params.card.folders[-1]
    folders = [
        inner
        for home in homes(params, data)
        for inner in (home, home / "raw", home / torchvision / "raw")
    ]
    folders += [DEBIAN_FASHION_MNIST] if params.name == "fashion-mnist" else []
    return next((source for folder in folders if (source := _idx(folder, IDX_NAMES))), None)


def _emnist(params: Emnist, data: Path) -> Source | None:
    """Find EMNIST: single files, or gzip.zip with all splits; labels of `letters` start at 1."""
    form = params.transposed, 1 if params.split == "letters" else 0
    names = tuple(
        f"emnist-{params.split}-{split}-{kind}-ubyte"
        for split in ("train", "test")
        for kind in ("images-idx3", "labels-idx1")
    )
    # One folder may hold several splits: the genuine file names distinguish them.
    bases = [*homes(params, data), data / "emnist", data / "EMNIST"]
    folders = [
        inner
        for base in bases
        for inner in (base, base / "raw", base / "gzip", base / "EMNIST" / "raw")
    ]
    for folder in folders:
        if source := _idx(folder, names, *form):
            return source
        if (archive := folder / "gzip.zip").is_file():
            read = lazily("files.formats.idx.read_idx_archive", archive, names, *form)
            return Source(str(archive), (archive,), read)
    return None


def _idx(
    folder: Path, names: tuple[str, ...], transposed: bool = False, first_label: int = 0
) -> Source | None:
    """Find the four files in one folder: with or without .gz, a hyphen or a dot before `idx`."""
    files = []
    for name in names:
        dotted = name.replace("-idx", ".idx")
        spellings = [folder / word for word in (name, f"{name}.gz", dotted, f"{dotted}.gz")]
        files += [path for path in spellings if path.is_file()][:1]
    if len(files) < len(names):
        return None
    contents = {str(file): file for file in files}
    read = lazily("files.formats.idx.read_idx", contents, transposed, first_label)
    return Source(str(folder), tuple(files), read)


def _archive(
    params: DatasetParams, data: Path, reader: str, names: tuple[str, ...], inside: tuple[str, ...]
) -> Source | None:
    """Find an archive, or the folder that it unpacks to, in the set's folder or the data folder."""
    own = homes(params, data)
    unpacked = [home for home in own if inside and all((home / name).exists() for name in inside)]
    for path in [*unpacked, *(home / name for home in [*own, data] for name in names)]:
        if path.exists():
            files = (path,) if path.is_file() else _directories(path)
            return Source(str(path), files, lazily(f"files.formats.{reader}", path))
    return None


def _side_by_side(
    params: DatasetParams, data: Path, reader: str, names: tuple[str, ...], *arguments: Cifar10C
) -> Source | None:
    """Find files that lie side by side in one folder."""
    for home in [*homes(params, data), data]:
        files = tuple(home / name for name in names)
        if all(file.is_file() for file in files):
            return Source(str(home), files, lazily(reader, *arguments, *files))
    return None


def _directories(root: Path) -> tuple[Path, ...]:
    """Return what the cache watches of an unpacked archive: its files and two levels of folders.

    Watching all of its pictures, a hundred thousand of them, would take too long.
    """
    first = sorted(root.iterdir())
    second = [
        inner
        for path in first
        if path.is_dir()
        for inner in sorted(path.iterdir())
        if inner.is_dir()
    ]
    return tuple(first + second)
