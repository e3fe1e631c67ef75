"""The data sets by name, and their parameters. Imports neither torch nor any reader of files."""

import re
import warnings
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedmirage.common.data.catalogue import cards
from fedmirage.common.data.catalogue.base import DatasetParams, Names, OwnParams, PictureParams
from fedmirage.common.data.catalogue.cards import Card
from fedmirage.common.data.catalogue.derived import Cifar10C, DigitsDomains, MnistDomains
from fedmirage.common.data.catalogue.encoded import Embeddings, Texts

# A field may have the name of a method that pydantic keeps for its first version.
warnings.filterwarnings("ignore", 'Field name "schema" in "OwnTable"', UserWarning)

__all__ = ["DATASETS", "DatasetParams", "OwnParams", "PictureParams", "find_origin"]


class Digits(PictureParams):
    """1,797 real digits that come with scikit-learn; a fifth of every class is the test set."""

    name = "digits"

    size: int | None = Field(28, ge=1, le=1024)
    """Side in pixels; the genuine pictures are 8x8, and 28 fits every model."""


class DigitsMulti(PictureParams):
    """Several embedded digits in one 28x28 picture; the labels say which. Test pictures show only
    digits of the test set."""

    name = "digits-multi"

    per_image: int = Field(3, ge=1, le=4)
    """Most different digits per picture; their number is drawn uniformly from 1 to this."""
    train: int = Field(2000, ge=1, le=100_000)
    """Number of training pictures."""
    test: int = Field(500, ge=1, le=100_000)
    """Number of test pictures."""
    seed: int = Field(0, ge=0)
    """Decides which digits appear where; another seed gives another set."""


class FashionMnist(PictureParams):
    """Fashion-MNIST: 60,000 + 10,000 pictures, 28x28."""

    name = "fashion-mnist"


class Mnist(PictureParams):
    """MNIST: 60,000 + 10,000 pictures, 28x28."""

    name = "mnist"


class Emnist(PictureParams):
    """EMNIST, 28x28, delivered upright (the genuine files are transposed)."""

    name = "emnist"

    split: Literal["digits", "mnist", "letters", "balanced", "bymerge", "byclass"] = "digits"
    """Which of the six published splits: digits and mnist have 10 classes, letters 26, balanced and
    bymerge 47, byclass 62."""
    transposed: bool = True
    """Rows and columns are exchanged in the files, as in the genuine ones and those of the hub;
    False reads them as they are."""

    def about(self) -> Card:
        """Return the facts about the chosen split."""
        subset = "emnist-letters" if self.split == "letters" else ""
        classes, hub = cards.EMNIST_CLASSES[self.split], cards.EMNIST_HUB.get(self.split, "")
        files = self.card.files.replace("<split>", self.split)
        return replace(self.card, classes=classes, hub=hub, subset=subset, files=files)


class Cifar10(PictureParams):
    """CIFAR-10: 50,000 + 10,000 pictures, 32x32."""

    name = "cifar10"


class Cifar100(PictureParams):
    """CIFAR-100 with its fine labels: 50,000 + 10,000 pictures, 32x32."""

    name = "cifar100"


class Svhn(PictureParams):
    """Street View House Numbers, cropped digits: 73,257 + 26,032 pictures, 32x32."""

    name = "svhn"


class Cinic10(PictureParams):
    """CINIC-10: 90,000 + 90,000 pictures, 32x32; its validation split is not used."""

    name = "cinic10"


class Usps(PictureParams):
    """USPS: 7,291 + 2,007 pictures, 16x16."""

    name = "usps"


class MnistM(PictureParams):
    """MNIST-M, MNIST blended with crops of photographs: 59,001 + 9,001 pictures, 32x32."""

    name = "mnist-m"


class SynthDigits(PictureParams):
    """SynthDigits, rendered from fonts: 479,400 + 9,553 pictures, 32x32."""

    name = "synth-digits"


class TinyImagenet(PictureParams):
    """Tiny ImageNet: 100,000 + 10,000 pictures, 64x64."""

    name = "tiny-imagenet"


class Flair(PictureParams):
    """FLAIR with its 17 coarse labels; the partition natural(by="user") splits it by its users. The
    validation split is not used."""

    name = "flair"

    size: int | None = Field(64, ge=1, le=1024)
    """Side in pixels. The files have 256, at which the decoded training set would take 68 GB; at 64
    it takes 4 GB."""


class TensorParams(OwnParams, PictureParams):
    """The parameters of files that hold pictures or other inputs of a fixed shape."""

    inputs: Literal["pictures", "tensors"] = "pictures"
    """What the inputs are: pictures; or numbers of any fixed shape, channels first, such as
    (channels, length) for signals, which are then normalised by `mean` and `std` alone (0 and 1
    unless given)."""
    shape: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(None, min_length=1)
    """The shape of one input that is no picture, such as (3, 64); needed where the server reads no
    data (server-data="none"), otherwise the files tell it."""

    @model_validator(mode="after")
    def _only_pictures(self) -> Self:
        asked = [key for key in ("size", "channels") if getattr(self, key) is not None]
        if asked and not self.pictures:
            raise ValueError(f"{asked[0]}= is for pictures; leave it out with inputs='tensors'")
        if self.shape and self.pictures:
            raise ValueError("shape= is for inputs='tensors'; pictures have size= and channels=")
        return self

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """The shape of one input, if the parameters say it."""
        return super().known_shape if self.pictures else self.shape

    @property
    def missing_shape(self) -> str:
        """What to write if it is not known."""
        return super().missing_shape if self.pictures else "shape=(CHANNELS, LENGTH, ...)"

    @property
    def pictures(self) -> bool:
        """Whether its inputs are pictures."""
        return self.inputs == "pictures"


class SkipParams(OwnParams, PictureParams):
    """The parameters of pictures of your own that are files, or encoded like files."""

    skip: bool = False
    """Leaves out a picture that cannot be read, and counts it, instead of refusing all of them. A
    node with data of its own decides by itself (skip=true in its --node-config)."""


class ImageFolder(SkipParams):
    """Pictures in <path>/<class>/, or in <path>/train/<class>/ and <path>/test/<class>/."""

    name = "imagefolder"


class Npz(TensorParams):
    """Arrays train_images, train_labels, test_images, test_labels (or x_train, y_train, ...), or
    just images and labels; class_names names the classes."""

    name = "npz"

    columns: Names = ()
    """Further arrays with one value per sample, such as "user" (train_user, test_user), for
    partitions that split by them."""


class Parquet(TensorParams, SkipParams):
    """A parquet file, or a folder with train*.parquet and test*.parquet; pictures are encoded (PNG,
    JPEG, ...), other inputs are (nested) lists of numbers."""

    name = "parquet"

    image: str | None = None
    """Column of the pictures or other inputs; None takes image or img."""
    label: str | None = None
    """Column of the labels: numbers, names, or lists of them for several labels per picture; None
    takes label or labels."""
    columns: Names = ()
    """Further columns with one value per sample, such as "user", for partitions that split by
    them."""

    def about(self) -> Card:
        """Return the facts that the parameters state."""
        card = super().about()
        image = (self.image,) if self.image else card.image
        label = (self.label,) if self.label else card.label
        return replace(card, image=image, label=label)


class OwnTable(OwnParams):
    """A table of numbers, categories and missing values in one file (.csv or .parquet), with a
    schema that says what its columns mean; `fedmirage schema FILE` drafts it.

    Every number is normalised by mean and deviation over all clients, which are formed from sums
    before the first round, unless the schema has them. A deployed node names its own file and its
    own copy of the schema: --node-config 'data="FILE.csv" schema="schema.toml"'.
    """

    name = "table"

    schema: str = Field("schema.toml", min_length=1)  # type: ignore[assignment]
    """The schema: absolute, or relative to the data folder or else to the current folder."""
    label: str | None = None
    """Column of the labels; None takes the one of the schema, and another one is refused."""
    columns: Names = ()
    """Columns with one value per row, such as "hospital", for partitions that split by them; the
    schema may ignore them as inputs."""

    @field_validator("classes")
    @classmethod
    def _in_the_schema(cls, value: int | tuple[str, ...] | None) -> None:
        if value is not None:
            raise ValueError("the schema lists the classes of a table; leave it out")


class Hub(Parquet):
    """Any set of the Hugging Face hub that holds pictures; --download fetches it into the data
    folder, and from then on it is read from there.

    A deployed node never downloads such a set for a run: its owner does, beforehand.
    """

    name = "hub"

    path: str
    """Its name on the hub, such as "ylecun/mnist"."""
    subset: str = ""
    """Its configuration on the hub, if it has several."""
    train: str = "train"
    """The split with the training samples."""
    test: str = "test"
    """The split with the test samples; where there is none, `test_share` of the training samples is
    held out."""

    @field_validator("path")
    @classmethod
    def _name(cls, value: str) -> str:
        if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", value):
            raise ValueError('write its name on the hub, such as "ylecun/mnist"')
        return value

    @field_validator("subset", "train", "test")
    @classmethod
    def _word(cls, value: str, info: ValidationInfo) -> str:
        if not re.fullmatch(r"\w[\w.-]*", value) and (value or info.field_name != "subset"):
            raise ValueError("write it as the hub does, with letters, digits, '.', '-' and '_'")
        return value

    def about(self) -> Card:
        """Return the facts that the parameters state."""
        place = f"https://huggingface.co/datasets/{self.path}"
        card = replace(super().about(), hub=self.path, subset=self.subset, test=(self.test,))
        return replace(card, origin=place, files=f"{self.train}.parquet and {self.test}.parquet")


class BreastCancer(DatasetParams):
    """569 rows of 30 measured numbers and a diagnosis, which come with scikit-learn; a fifth of
    every class is the test set."""

    name = "breast-cancer"


class Wine(DatasetParams):
    """178 rows of 13 measured numbers and one of three growers, which come with scikit-learn; a
    fifth of every class is the test set."""

    name = "wine"


class Waves(DatasetParams):
    """1,200 + 300 made signals of three channels and 64 steps, in six shapes: sine, square,
    sawtooth, chirp, two tones and burst.

    Frequency, phase and strength are drawn for every signal, and noise is added. One of five
    sensors records it: each has a gain and an offset of its own per channel, and its own noise. The
    partition `domains` gives each of five clients its own sensor.
    """

    name = "waves"

    noise: float = Field(0.6, ge=0, le=10)
    """Standard deviation of the noise of a middling sensor; the shapes have amplitudes around 1."""
    seed: int = Field(0, ge=0)
    """Decides everything that is random; another seed gives another set."""


EMBEDDED: tuple[type[DatasetParams], ...] = (
    *(Digits, DigitsMulti, DigitsDomains),
    *(BreastCancer, Wine, Waves),
)
PUBLISHED: tuple[type[DatasetParams], ...] = (
    *(FashionMnist, Mnist, Emnist, Cifar10, Cifar100, Svhn, Cinic10, Usps, MnistM, SynthDigits),
    *(TinyImagenet, Flair),
)
MADE: tuple[type[DatasetParams], ...] = (MnistDomains, Cifar10C)
ENCODED: tuple[type[DatasetParams], ...] = (Texts, Embeddings)
OWN: tuple[type[DatasetParams], ...] = (ImageFolder, Npz, Parquet, OwnTable, Hub)
DATASETS: dict[str, type[DatasetParams]] = {
    params.name: params for params in EMBEDDED + PUBLISHED + MADE + OWN + ENCODED
}


def find_origin(params: DatasetParams) -> DatasetParams:
    """Return the set whose files are read: another one, or the set itself."""
    name = params.made_from()
    return params if name is None else DATASETS[name]()
