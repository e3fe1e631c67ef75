"""Networks as somebody else would write them, good and bad ones."""

import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

NUMBER = 3


class Plain(nn.Module):
    """Features and classifier, and nothing else."""

    def __init__(self, width: int = 4, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.classifier = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))  # type: ignore[no-any-return]


class Rich(nn.Module):
    """Batch norm, dropout and a skip connection; its last layer is called `fc`."""

    def __init__(self, width: int = 4, drop: float = 0.2) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, width, 3), nn.BatchNorm2d(width)
        self.block, self.drop = nn.Conv2d(width, width, 3, padding=1), nn.Dropout(drop)
        self.fc = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norm(self.stem(images)).relu()
        maps = maps + self.block(maps).relu()
        return self.fc(self.drop(maps.mean((2, 3))))  # type: ignore[no-any-return]


class Mapped(nn.Module):
    """The classifier itself flattens maps."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(2))
        self.classifier = nn.Sequential(nn.Flatten(), nn.LazyLinear(10))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.body(images))  # type: ignore[no-any-return]


def plain(width: int) -> nn.Module:
    """A function that returns a network."""
    return Plain(width)


def number() -> int:
    """A function that returns none."""
    return NUMBER


class Faulty(Plain):
    """A network with one fault, by its name."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        if fault == "half":
            self.classifier.weight.data = self.classifier.weight.data.half()
        if fault == "counts":
            self.features.append(Counter())
        if fault == "detached":
            self.features.append(Detached())
        if fault == "tied":
            self.features.append(nn.Linear(16, 16))
            self.features.append(nn.Linear(16, 16))
            self.features[-1].weight = self.features[-2].weight
        if fault == "empty":
            self.features.append(self.classifier)
            self.classifier = nn.Identity()

    def forward(self, images: Tensor) -> Any:
        if self.fault == "raises":
            raise ValueError("the sides must be even")
        if self.fault == "tuple":
            return super().forward(images), None
        if self.fault == "nan":
            return super().forward(images) * math.nan
        if self.fault == "after":
            return super().forward(images).log_softmax(1)
        if self.fault == "infinite" and self.training:
            return super().forward(images) * math.inf
        if self.fault == "dropout":
            return self.classifier(dropout(self.features(images), 0.5, self.training))
        if self.fault == "detaches":
            return self.classifier(self.features(images).detach())
        if self.fault == "training" and self.training:
            return [super().forward(images)]
        if self.fault == "half":
            return self.classifier.half()(self.features(images).half())
        return super().forward(images)


class Detached(nn.Module):
    """Lets no gradient through."""

    def forward(self, values: Tensor) -> Tensor:
        return values.detach()


class Counter(nn.Module):
    """Counts its batches in whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, values: Tensor) -> Tensor:
        self.seen += 1  # type: ignore[assignment,operator]
        return values


class Downloads(Plain):
    """Fetches something while it is made."""

    def __init__(self, how: str) -> None:
        super().__init__()
        if how == "url":
            from urllib.request import urlopen

            urlopen("http://127.0.0.1:9/weights")
        if how == "program":
            import subprocess

            subprocess.run(["true"], check=True)


def tanh() -> nn.Module:
    """A network that ends with something that has no outputs to add to."""
    network = Plain()
    network.classifier = nn.Sequential(network.classifier, nn.Tanh())  # type: ignore[assignment]
    return network


def linear() -> nn.Module:
    """A network whose features have no weights."""
    return nn.Sequential(OrderedDict(features=nn.Flatten(), classifier=nn.LazyLinear(10)))
