"""What is known about the published data sets before any of their files is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedmirage.common.data.set import Task

DIGITS = tuple("0123456789")
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
CLOTHES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IDX_FILES = "train-images-idx3-ubyte[.gz] and its three companions"


@dataclass(frozen=True)
class Card:
    """The facts about one set. What is empty here is read from the files."""

    title: str
    shape: tuple[int, int, int] | None = None  # (channels, height, width) as published
    classes: tuple[str, ...] = ()  # names of the classes
    count: int | None = None  # number of classes, where the names come from the files
    task: Task | None = "single-label"  # None: it follows from the labels
    mean: tuple[float, ...] = (0.5,)  # of pixels in [0, 1], one number or one per channel
    std: tuple[float, ...] = (0.5,)
    hub: str = ""  # owner/name on the Hugging Face hub; empty: no copy is known
    subset: str = ""  # its configuration on the hub
    # the column of the pictures in parquet files, in order of preference; empty: there are none
    image: tuple[str, ...] = ("image", "img")
    label: tuple[str, ...] = ("label", "labels")
    # further columns: their name in partitions, and their name in the files
    columns: tuple[tuple[str, str], ...] = ()
    domains: tuple[str, ...] = ()  # names of the numbers in the column "domain", where it is made
    test: tuple[str, ...] = ("test",)  # what the hub and the archives call the test split
    folders: tuple[str, ...] = ()  # other names of its folder inside the data folder
    files: str = ""  # the genuine files, for the sentence about a missing set
    origin: str = ""  # where to get them

    @property
    def class_count(self) -> int | None:
        """The number of classes, where it is fixed."""
        return self.count or len(self.classes) or None


EMBEDDED = Card(
    "handwritten digits, grey, embedded", (1, 8, 8), DIGITS, mean=(0.3053,), std=(0.3247,)
)
EMBEDDED_MULTI = Card(
    "one to four embedded digits per picture, grey, multi-label",
    (1, 28, 28),
    DIGITS,
    task="multi-label",
    mean=(0.113,),
    std=(0.2457,),
)
# In the order of their numbers: as it is; dark on a bright texture; blended with colourful patches
# as in MNIST-M; rendered from fonts; warped and blurred.
DIGIT_STYLES = ("plain", "inverted", "blended", "rendered", "warped")
EMBEDDED_DOMAINS = Card(
    "embedded digits in five styles, colour",
    (3, 16, 16),
    DIGITS,
    mean=(0.5,) * 3,
    std=(0.5,) * 3,
    domains=DIGIT_STYLES,
)
FASHION_MNIST = Card(
    "clothes, grey",
    (1, 28, 28),
    CLOTHES,
    hub="zalando-datasets/fashion_mnist",
    folders=("fashion_mnist", "FashionMNIST"),
    files=IDX_FILES,
    origin="Debian's package dataset-fashion-mnist or github.com/zalandoresearch/fashion-mnist",
)
MNIST = Card(
    "handwritten digits, grey",
    (1, 28, 28),
    DIGITS,
    mean=(0.1307,),
    std=(0.3081,),
    hub="ylecun/mnist",
    folders=("MNIST",),
    files=IDX_FILES,
    origin="yann.lecun.com/exdb/mnist or a mirror",
)
MNIST_DOMAINS = Card(
    "MNIST in five styles, colour",
    (3, 28, 28),
    DIGITS,
    mean=(0.5,) * 3,
    std=(0.5,) * 3,
    domains=DIGIT_STYLES,
)
EMNIST = Card(
    "handwritten digits and letters, grey",
    (1, 28, 28),
    mean=(0.1307,),
    std=(0.3081,),
    folders=("EMNIST",),
    files=(
        "gzip.zip, or the four files"
        " emnist-<split>-{train,test}-{images-idx3,labels-idx1}-ubyte[.gz] in it"
    ),
    origin="www.nist.gov/itl/products-and-services/emnist-dataset",
)
MERGED = DIGITS + LETTERS + tuple("abdefghnqrt")  # letters whose two cases look alike are one class
EMNIST_CLASSES = {
    "digits": DIGITS,
    "mnist": DIGITS,
    "letters": LETTERS,
    "balanced": MERGED,
    "bymerge": MERGED,
    "byclass": DIGITS + LETTERS + tuple(letter.lower() for letter in LETTERS),
}
EMNIST_HUB = {"letters": "tanganke/emnist_letters", "mnist": "tanganke/emnist_mnist"}
CIFAR10 = Card(
    "ten kinds of animals and vehicles, colour",
    (3, 32, 32),
    THINGS,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    hub="uoft-cs/cifar10",
    folders=("cifar-10", "CIFAR10"),
    files="cifar-10-python.tar.gz or the folder cifar-10-batches-py",
    origin="www.cs.toronto.edu/~kriz/cifar.html",
)
# By the names of the published files; the last four are extras of the benchmark.
CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur"),
    *("zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform"),
    *("pixelate", "jpeg_compression", "speckle_noise", "gaussian_blur", "spatter", "saturate"),
)
CIFAR10_C = Card(
    "CIFAR-10 with 19 kinds of corruption, colour",
    CIFAR10.shape,
    THINGS,
    mean=CIFAR10.mean,
    std=CIFAR10.std,
    image=(),
    domains=CORRUPTIONS,
    folders=("CIFAR-10-C",),
    files="labels.npy and one .npy file per corruption",
    origin="zenodo.org/records/2535967",
)
CIFAR100 = Card(
    "a hundred kinds of things, colour",
    (3, 32, 32),
    count=100,
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    hub="uoft-cs/cifar100",
    label=("fine_label", "label"),
    folders=("cifar-100", "CIFAR100"),
    files="cifar-100-python.tar.gz or the folder cifar-100-python",
    origin="www.cs.toronto.edu/~kriz/cifar.html",
)
SVHN = Card(
    "house numbers, colour",
    (3, 32, 32),
    DIGITS,
    mean=(0.4377, 0.4438, 0.4728),
    std=(0.1980, 0.2010, 0.1970),
    hub="ufldl-stanford/svhn",
    subset="cropped_digits",
    folders=("SVHN",),
    files="train_32x32.mat and test_32x32.mat",
    origin="ufldl.stanford.edu/housenumbers",
)
CINIC10 = Card(
    "CIFAR-10's classes with pictures of ImageNet, colour",
    (3, 32, 32),
    THINGS,
    mean=(0.4789, 0.4723, 0.4305),
    std=(0.2421, 0.2383, 0.2587),
    hub="flwrlabs/cinic10",
    folders=("cinic-10", "CINIC-10"),
    files="CINIC-10.tar.gz or its folders train/<class> and test/<class>",
    origin="datashare.ed.ac.uk/handle/10283/3192",
)
USPS = Card(
    "handwritten digits from envelopes, grey",
    (1, 16, 16),
    DIGITS,
    mean=(0.2469,),
    std=(0.2989,),
    hub="flwrlabs/usps",
    folders=("USPS",),
    files="usps.bz2 and usps.t.bz2, or usps.h5",
    origin="www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html",
)
MNIST_M = Card(
    "MNIST blended with crops of photographs, colour",
    (3, 32, 32),
    DIGITS,
    mean=(0.5,) * 3,
    std=(0.5,) * 3,
    hub="Mike0307/MNIST-M",
    folders=("mnist_m", "MNIST-M"),
    files="mnist_m.tar.gz or its folder mnist_m (mnist_m_train, mnist_m_train_labels.txt, ...)",
    origin="yaroslav.ganin.net, the page of its authors",
)
SYNTH_DIGITS = Card(
    "digits rendered from fonts, colour",
    (3, 32, 32),
    DIGITS,
    mean=(0.5,) * 3,
    std=(0.5,) * 3,
    folders=("SynthDigits", "synth_digits"),
    files="synth_train_32x32.mat and synth_test_32x32.mat",
    origin="github.com/domainadaptation/datasets",
)
TINY_IMAGENET = Card(
    "two hundred classes of ImageNet, colour; the labelled validation split is the test set",
    (3, 64, 64),
    count=200,
    mean=(0.4802, 0.4481, 0.3975),
    std=(0.2770, 0.2691, 0.2821),
    hub="zh-plus/tiny-imagenet",
    test=("valid", "validation", "val", "test"),
    folders=("tiny_imagenet", "tiny-imagenet-200"),
    files="tiny-imagenet-200.zip or the folder tiny-imagenet-200",
    origin="cs231n.stanford.edu/tiny-imagenet-200.zip",
)
SUBJECTS = (
    "animal",
    "art",
    "celebration",
    "equipment",
    "fire",
    "food",
    "games",
    "interior_room",
    "light",
    "liquid",
    "material",
    "music",
    "outdoor",
    "plant",
    "recreation",
    "religion",
    "structure",
)
FLAIR = Card(
    "photographs of 51,000 Flickr users, colour, multi-label",
    (3, 256, 256),
    SUBJECTS,
    task="multi-label",
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    hub="apple/flair",
    label=("labels",),
    columns=(("user", "user_id"),),
    folders=("FLAIR",),
    files="data/train-*.parquet and data/test-*.parquet",
    origin="huggingface.co/datasets/apple/flair",
)
IMAGE_FOLDER = Card(
    "your own pictures, one folder per class", test=("test", "val", "valid", "validation")
)
NPZ = Card("your own arrays in a .npz file", task=None)
PARQUET = Card(
    "your own parquet files, pictures as encoded bytes",
    task=None,
    test=("test", "validation", "valid", "val"),
)
