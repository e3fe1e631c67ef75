"""The partitions by name, and their parameters. Nothing here loads torch or reads data."""

from typing import ClassVar

from pydantic import Field

from fedmirage.common.settings.language import Params


class PartitionParams(Params):
    """The params of one partition."""

    # whether it splits by class number, which a multi-label sample does not have
    single_label: ClassVar[bool] = False
    # whether several clients may hold the same sample
    shares_samples: ClassVar[bool] = False


class LabelSkew(PartitionParams):
    """The params of a partition that splits by class number."""

    single_label: ClassVar[bool] = True


class Iid(PartitionParams):
    """Shuffled and split evenly: sizes differ by at most one sample."""

    name: ClassVar[str] = "iid"


class Dirichlet(LabelSkew):
    """Every class is divided over the clients by Dirichlet(alpha); sizes stay unequal (FedCOG's
    NIID-1, VHL)."""

    name: ClassVar[str] = "dirichlet"
    alpha: float = Field(gt=0)
    """The concentration (beta in FedCOG): 0.1 is strong label skew, 100 is almost IID."""
    min_size: int = Field(default=10, ge=1)
    """Every client holds at least this many samples; shares are redrawn until that is so. VHL uses
    the number of classes."""
    capped: bool = True
    """A client that already holds N/K samples (all samples divided by the number of clients) gets
    no share of later classes."""


class DirichletEqual(LabelSkew):
    """Every class is divided over the clients by Dirichlet(alpha), then all clients are made
    equally large (DynaFed)."""

    name: ClassVar[str] = "dirichlet-equal"
    alpha: float = Field(gt=0)
    """The concentration: with 80 clients and 10 classes, 0.01 gives 1.7 classes per client on
    average, 0.16 about 6.7."""


class DirichletClient(LabelSkew):
    """Every client draws its class shares from Dirichlet(alpha), then its samples; all clients get
    equally many (FedMD-CG)."""

    name: ClassVar[str] = "dirichlet-client"
    alpha: float = Field(gt=0)
    """The concentration (omega in FedMD-CG): 0.1 gives 2 to 9 of ten classes per client."""


class Classes(LabelSkew):
    """A fixed number of classes per client, without randomness (FedCOG's NIID-2; with `samples`
    VHL's 2-class setting).

    Client i holds the classes s*i, s*i+1, ... s*i+s-1; after the last block of s classes the count
    starts again at class 0. Where s does not divide the number of classes, the last block is filled
    up from class 0, so every client still has s classes. The clients that hold a class divide
    it in the order of the data set. With fewer clients than blocks, some classes are unused.
    """

    name: ClassVar[str] = "classes"
    per_client: int = Field(ge=1)
    """Classes per client (s in FedCOG: 2, and 10 for CIFAR-100)."""
    samples: int | None = Field(default=None, ge=1)
    """Samples per client, spread evenly over its classes; None keeps all. VHL's setting is 500 of 2
    classes."""


class Dominant(LabelSkew):
    """Almost all of a class belongs to the client that it dominates, the rest is spread over the
    others (VHL's "subset").

    The dominant class of client i is i modulo the number of classes; with fewer clients than
    classes, class c goes to client c modulo the number of clients. Clients with the same dominant
    class divide it evenly.
    """

    name: ClassVar[str] = "dominant"
    share: float = Field(default=0.99, gt=0, le=1)
    """The share of a class that its own clients hold; the remainder goes evenly to the other
    clients."""


class Natural(PartitionParams):
    """Splits by groups that the data name, such as writers.

    With as many groups as clients, each gets one, in the order of the group numbers. With more
    groups than clients, the groups are shuffled (seeded) and handed out in turn, so clients
    differ by at most one group.
    """

    name: ClassVar[str] = "natural"
    by: str = "user"
    """The column of the data that names a sample's group."""
    drawn: bool = False
    """With more groups than clients, draw one group per client and leave the others unused
    (FedCOG's 200 users of FLAIR)."""


class Domains(PartitionParams):
    """One source of data (column "domain") per client, or per `shards` clients: client d*shards + j
    has shard j of domain d (FedLGD)."""

    name: ClassVar[str] = "domains"
    shards: int = Field(default=1, ge=1)
    """Clients per domain; the number of clients must be domains times shards."""
    alpha: float | None = Field(default=None, gt=0)
    """Divides every class of a domain over its shards by Dirichlet(alpha); None splits the domain
    evenly at random."""
    minimum: int = Field(default=0, ge=0)
    """Least samples per class of the domain that each of its clients holds (FedLGD on CIFAR10C:
    100)."""


class Listed(PartitionParams):
    """The samples of every client as a JSON file lists them, by their positions in the training
    split, counted from 0.

    The file holds a list with one list of positions per client, or an object with one per name of a
    client. No position may be in two lists; those in none are not used. The set must have a test
    split of its own, because a held-out one would shift the positions.
    """

    name: ClassVar[str] = "indices"
    path: str = Field(min_length=1)
    """Where it is: absolute, or relative to the data folder or else to the current folder."""


class OwnDraw(PartitionParams):
    """Every client draws its own samples from the whole set, for more clients than there are
    samples.

    A client holds no sample twice, but several clients may hold the same one. A draw depends on the
    seed and the client's number only. It is made when the client is asked to train, and nothing is
    kept of the others, so 100,000 clients start as soon as ten.
    """

    name: ClassVar[str] = "draw"
    shares_samples: ClassVar[bool] = True
    per_client: int = Field(ge=1)
    """Samples per client."""


KINDS: tuple[type[PartitionParams], ...] = (
    *(Iid, Dirichlet, DirichletEqual, DirichletClient, Classes, Dominant, Natural, Domains, Listed),
    OwnDraw,
)
PARTITIONS = {params.name: params for params in KINDS}
