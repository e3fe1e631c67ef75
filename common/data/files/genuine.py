"""Finds the files that the authors of the published sets distribute, by their names."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from fedmirage.common.data.catalogue.derived import Cifar10C
from fedmirage.common.data.catalogue.params import DatasetParams, Emnist
from fedmirage.common.data.files.places import Source, homes
from fedmirage.common.data.files.raw import PictureForm, Raw

DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
Finder = Callable[[DatasetParams, Path], Source | None]


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


def _emnist(params: DatasetParams, data: Path) -> Source | None:
    """Find EMNIST: single files, or gzip.zip with all splits; labels of `letters` start at 1."""
    assert isinstance(params, Emnist)
    transposed, first_label = params.transposed, 1 if params.split == "letters" else 0
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
        if source := _idx(folder, names, transposed, first_label):
            return source
        if (archive := folder / "gzip.zip").is_file():
            return Source(
                str(archive),
                (archive,),
                lambda form: _read_idx_archive(archive, names, form, transposed, first_label),
            )
    return None


def _cifar(params: DatasetParams, data: Path) -> Source | None:
    hundred = params.name == "cifar100"
    archive, folder = (
        ("cifar-100-python.tar.gz", "cifar-100-python")
        if hundred
        else ("cifar-10-python.tar.gz", "cifar-10-batches-py")
    )

    def read(path: Path, form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import published

        return published.cifar100(path, form) if hundred else published.cifar10(path, form)

    return _archive(params, data, (folder, archive), read)


def _svhn(params: DatasetParams, data: Path) -> Source | None:
    def read(files: tuple[Path, ...], form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import published

        return published.svhn(files[0], files[1], form)

    return _pair(params, data, ("train_32x32.mat", "test_32x32.mat"), read)


def _usps(params: DatasetParams, data: Path) -> Source | None:
    def read(files: tuple[Path, ...], form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import published

        return (
            published.usps_text(files[0], files[1], form)
            if len(files) == 2
            else published.usps_h5(files[0], form)
        )

    return _pair(params, data, ("usps.bz2", "usps.t.bz2"), read) or _pair(
        params, data, ("usps.h5",), read
    )


def _cinic(params: DatasetParams, data: Path) -> Source | None:
    def read(path: Path, form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import folders

        return folders.cinic10(path, form, params.about().classes)

    for home in homes(params, data):
        if (home / "train").is_dir() and (home / "test").is_dir():
            return Source(str(home), _directories(home), partial(read, home))
    return _archive(params, data, ("CINIC-10.tar.gz",), read)


def _tiny(params: DatasetParams, data: Path) -> Source | None:
    def read(path: Path, form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import folders

        return folders.tiny_imagenet(path, form)

    for home in homes(params, data):
        if (home / "train").is_dir() and (home / "val" / "images").is_dir():
            return Source(str(home), _directories(home), partial(read, home))
    return _archive(params, data, ("tiny-imagenet-200", "tiny-imagenet-200.zip"), read)


def _mnist_m(params: DatasetParams, data: Path) -> Source | None:
    def read(path: Path, form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import folders

        return folders.mnist_m(path, form)

    for home in homes(params, data):
        if (home / "mnist_m_train_labels.txt").is_file():
            return Source(str(home), _directories(home), partial(read, home))
    return _archive(params, data, ("mnist_m", "mnist_m.tar.gz"), read)


def _synth_digits(params: DatasetParams, data: Path) -> Source | None:
    def read(files: tuple[Path, ...], form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import published

        return published.svhn(files[0], files[1], form)

    return _pair(params, data, ("synth_train_32x32.mat", "synth_test_32x32.mat"), read)


def _cifar10_c(params: DatasetParams, data: Path) -> Source | None:
    def read(files: tuple[Path, ...], form: PictureForm) -> Raw:
        from fedmirage.common.data.derived import corrupted

        assert isinstance(params, Cifar10C)
        return corrupted.read_published(files[0], files[1:], params, form)

    names = tuple(f"{name}.npy" for name in ("labels", *params.about().domains))
    return _pair(params, data, names, read)


FINDERS: dict[str, Finder] = {
    "mnist": _mnist,
    "fashion-mnist": _mnist,
    "emnist": _emnist,
    "cifar10": _cifar,
    "cifar100": _cifar,
    "svhn": _svhn,
    "usps": _usps,
    "mnist-m": _mnist_m,
    "synth-digits": _synth_digits,
    "cifar10-c": _cifar10_c,
    "cinic10": _cinic,
    "tiny-imagenet": _tiny,
}


def _idx(
    folder: Path, names: tuple[str, ...], transposed: bool = False, first_label: int = 0
) -> Source | None:
    """Find the four files in one folder: with or without .gz, a hyphen or a dot before `idx`."""
    files = []
    for name in names:
        spellings = (
            name,
            f"{name}.gz",
            name.replace("-idx", ".idx"),
            f"{name.replace('-idx', '.idx')}.gz",
        )
        found = next(
            (folder / spelling for spelling in spellings if (folder / spelling).is_file()), None
        )
        if found is None:
            return None
        files.append(found)

    def read(form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats import idx

        return idx.read_idx(
            idx.IdxFiles(*files), tuple(map(str, files)), form, transposed, first_label
        )

    return Source(str(folder), tuple(files), read)


def _read_idx_archive(
    archive: Path, names: tuple[str, ...], form: PictureForm, transposed: bool, first_label: int
) -> Raw:
    from fedmirage.common.data.files.archives import read_entries
    from fedmirage.common.data.files.formats import idx
    from fedmirage.common.errors import DataError

    found = {
        Path(name).name.removesuffix(".gz"): content
        for name, content in read_entries(archive, lambda name: any(part in name for part in names))
    }
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(
            f"{archive} is not complete: {', '.join(missing)} is not in it; get it again"
        )
    return idx.read_idx(
        idx.IdxFiles(*(found[name] for name in names)),
        tuple(f"{archive}: {name}" for name in names),
        form,
        transposed,
        first_label,
    )


def _archive(
    params: DatasetParams,
    data: Path,
    names: tuple[str, ...],
    read: Callable[[Path, PictureForm], Raw],
) -> Source | None:
    """Find an archive, or the folder that it unpacks to, in the set's folder or the data folder."""
    for path in (home / name for home in [*homes(params, data), data] for name in names):
        if path.is_file():
            return Source(str(path), (path,), partial(read, path))
        if path.is_dir():
            return Source(str(path), _directories(path), partial(read, path))
    return None


def _pair(
    params: DatasetParams,
    data: Path,
    names: tuple[str, ...],
    read: Callable[[tuple[Path, ...], PictureForm], Raw],
) -> Source | None:
    """Find files that lie side by side in one folder."""
    for home in [*homes(params, data), data]:
        files = tuple(home / name for name in names)
        if all(file.is_file() for file in files):
            return Source(str(home), files, partial(read, files))
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
