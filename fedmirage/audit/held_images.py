"""The images that methods make: those that the server holds or sends, and those of the clients."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedmirage.audit.overheard import Overheard
from fedmirage.client.methods.fedcog import FedCogClient
from fedmirage.common.data.batches import normalise
from fedmirage.common.memory import Memory, client_folder
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.methods.fedlgd import GLOBAL, REMEMBERED_LOCAL, FedLgd
from fedmirage.common.methods.fedlgd.images import decode
from fedmirage.common.methods.vhl import VIRTUAL, Vhl
from fedmirage.common.methods.vhl.sets import normalisation
from fedmirage.common.wire.payload import SHARED, Arrays
from fedmirage.server.record.checkpoint import FILE, read_checkpoint


@dataclass(frozen=True)
class HeldImages:
    """Images that a method made, as its network sees them, and who has them."""

    what: str
    where: str  # on which machines
    images: Tensor  # (images, channels, height, width), normalised


def find_images(seen: Overheard) -> list[HeldImages]:
    """Find all images that the methods of a run have made, as they are after its last round."""
    found: list[HeldImages] = []
    for method in seen.config.method_list:
        if isinstance(method, Vhl):
            found += read_virtual(method, seen)
        elif isinstance(method, FedLgd):
            found += [*read_global(method, seen), *read_local(seen)]
        elif isinstance(method, FedCog):
            found += make_again(method, seen)
    return [*found, *read_synthetic(seen)]


def read_virtual(params: Vhl, seen: Overheard) -> Iterator[HeldImages]:
    """Read VHL's set off the wire, where it is one of images and not of features or a recipe."""
    data = seen.run.dataset
    for arrays in last_handed_out(seen, VIRTUAL):
        if arrays[0].ndim == 4:
            mean, std = normalisation(params, data.mean, data.std)
            images = normalise(torch.from_numpy(arrays[0]), mean, std)
            yield HeldImages("VHL's virtual images", "on the wire", images)


def read_global(params: FedLgd, seen: Overheard) -> Iterator[HeldImages]:
    """Read FedLGD's global images off the wire."""
    for arrays in last_handed_out(seen, GLOBAL):
        images = torch.from_numpy(decode(arrays[:-1]))
        matched = "" if params.matches else ", which are noise"
        yield HeldImages(f"FedLGD's global images{matched}", "on the wire", images)


def last_handed_out(seen: Overheard, section: str) -> Iterator[Arrays]:
    """Find the last version of a set that any client was sent; what comes first is its digest."""
    for exchange in reversed(seen.rounds):
        for sections in exchange.sent.values():
            if len(arrays := sections.get(section, [])) > 2:
                yield arrays[1:]
                return


def read_local(seen: Overheard) -> Iterator[HeldImages]:
    """Read FedLGD's local images from the clients' memories; no message has them."""
    token = read_checkpoint(seen.folder / FILE).token
    found = []
    for partition in range(seen.config.clients):
        folder = client_folder(seen.folder / "memory", token, partition)
        kept = Memory(folder, seen.config.rounds + 1).get(REMEMBERED_LOCAL)
        found += [torch.from_numpy(kept[0])] if kept else []
    if found:
        yield HeldImages("FedLGD's local images", "on the clients", torch.cat(found))


def read_synthetic(seen: Overheard) -> Iterator[HeldImages]:
    """Read DynaFed's set from the server's checkpoint; no message has it."""
    images = read_checkpoint(seen.folder / FILE).strategy.get("dynafed.images")
    if images is not None:
        yield HeldImages("DynaFed's images", "on the server", torch.from_numpy(images))


def make_again(params: FedCog, seen: Overheard) -> Iterator[HeldImages]:
    """Let FedCOG's clients make the images of the last round again; they are the same ones."""
    number, token = seen.config.rounds, read_checkpoint(seen.folder / FILE).token
    found = []
    for partition in sorted(seen.rounds[-1].sent):
        client = seen.truth.client(partition)
        shared = {SHARED: seen.before(number)}
        local = client.open(shared, {"round": number, "token": token})
        objective = FedCogClient(params)
        objective.begin(local)
        found += [] if objective.virtual is None else [objective.virtual.images]
    if found:
        yield HeldImages("FedCOG's generated images", "on the clients", torch.cat(found))
