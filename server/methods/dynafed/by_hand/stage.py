"""Norm, ReLU and average pooling of a ConvNet, with both derivatives written out by hand.

Maps are stored as (4, images, places, channels): the first number says which pixel of its 2 x 2
window a value is, so that pooling adds whole blocks of memory, and its reverse is broadcasting.
What is pooled is (images, places, channels), and a row is (images, 1, channels).

Let g and b be a quarter of the norm's scale and shift, because pooling divides by four. With the
centred map x = z - avg(z), the inverse deviation r, f = g r and the mask m = [f x + b > 0], the
outputs are

    h = f X + b A    where X adds m x and A adds m over each window.

Given the error e = dl/dh, the gradients by b and g are B = sum(e A) and G = r sum(e X) over all
places, and the error of z is

    dz = f m e + L + T x    with L = -r avg(g B) and T = -r^2 avg(g G).

Here avg adds over all pixels and channels of a group, and divides by their number. A tangent,
marked by ', is the derivative of a value in a given direction of all weights. The mask has none.
With t = avg(z') and s = r^2 avg(x z'), we have x' = z' - t and r' = -r s. If Z adds m z', then
X' = Z - t A. The rest follows from the product rule:

    f' = g' r - f s
    h' = f X' + f' X + b' A
    B' = sum(e' A)    G' = r (sum(e' X) + sum(e X')) - s G
    L' = -r avg(g B' + g' B) - s L    T' = -r^2 avg(g G' + g' G) - 2 s T
    dz' = m (f e' + f' e) + L' + T' x + T x'
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

WINDOW = 4  # the number of pixels that are averaged by pooling


@dataclass(frozen=True)
class Norm:
    """A GroupNorm, or none at all if there are no groups: all averages then count as zero."""

    groups: int | None
    eps: float

    def average(self, sums: Tensor, places: int) -> Tensor:
        """Turn a row of sums over all pixels into averages over each group."""
        if self.groups is None:
            return torch.zeros_like(sums)
        rows, members = sums / (WINDOW * places), sums.shape[2] // self.groups
        if members == 1:
            return rows
        grouped = rows.view(len(rows), 1, self.groups, members).mean(dim=3)
        return grouped.repeat_interleave(members, dim=2)

    def center(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Subtract the average in place; return it, and the inverse standard deviation."""
        places = maps.shape[2]
        mean = self.average(add(maps), places)
        maps.sub_(mean)
        if self.groups is None:
            return mean, torch.ones_like(mean)
        return mean, (self.average(add_product(maps, maps), places) + self.eps).rsqrt_()


class Buffers:
    """Maps that are overwritten again and again, because memory outside of the cache is slow."""

    def __init__(self) -> None:
        self.buffers: dict[Any, Tensor] = {}

    def take(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """A tensor of any content, to be used until the same name is taken again."""
        key = (name, tuple(shape), like.dtype, like.device)
        if key not in self.buffers:
            self.buffers[key] = like.new_empty(shape)
        return self.buffers[key]


class Stage:
    """One pass of some images through norm, ReLU and pooling, and back.

    The methods are to be called in their order; `backward` may be called once more at the end.
    """

    def __init__(
        self,
        norm: Norm,
        scale: Tensor,
        shift: Tensor,
        centred: Tensor,
        inverse: Tensor,
        memory: Buffers,
    ) -> None:
        self.norm, self.memory = norm, memory
        self.scale, self.shift = scale, shift  # g and b
        self.centred, self.inverse = centred, inverse  # x and r
        self.factor = scale * inverse  # f
        mask = memory.take("mask", centred.shape, centred)
        self.mask = torch.addcmul(shift, centred, self.factor, out=mask).gt_(0)
        self.active, self.total = pool(mask), pool_product(mask, centred)  # A and X
        self.outputs = (self.active * shift).addcmul_(self.total, self.factor)

    def receive(self, error: Tensor) -> None:
        """Take the error e of the outputs, and compute both gradients."""
        self.error = error
        self.by_shift = add_places(self.multiply(error, self.active))
        self.by_scale = add_places(self.multiply(error, self.total)).mul_(self.inverse)
        self.level, self.tilt = self.project(self.scale * self.by_shift, self.scale * self.by_scale)

    def multiply(self, one: Tensor, other: Tensor) -> Tensor:
        """Multiply pooled values, into the same memory every time."""
        return torch.mul(one, other, out=self.memory.take("product", one.shape, one))

    def project(self, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Compute -r avg(one) and -r^2 avg(other)."""
        average, places, r = self.norm.average, self.error.shape[1], self.inverse
        return average(one, -places).mul_(r), average(other, -places).mul_(r).mul_(r)

    def backward(self) -> Tensor:
        """The error of z."""
        result = self.memory.take("change", self.mask.shape, self.mask)
        torch.addcmul(self.level, self.centred, self.tilt, out=result)
        return result.addcmul_(self.mask, self.multiply(self.error, self.factor))

    def tangent_forward(self, change: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        """The tangent of the outputs, given those of z, g and b."""
        places, r = change.shape[2], self.inverse
        self.change, self.scale_change = change, scale
        self.drift = self.norm.average(add(change), places)  # t
        self.stretch = self.norm.average(add_product(change, self.centred), places) * r * r  # s
        self.factor_change = (scale * r).addcmul_(self.factor, self.stretch, value=-1)
        self.total_change = pool_product(self.mask, change)
        self.total_change.addcmul_(self.active, self.drift, value=-1)
        result = (self.active * shift).addcmul_(self.total, self.factor_change)
        return result.addcmul_(self.total_change, self.factor)

    def tangent_backward(self, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The tangents of the error of z and of the gradients by g and b, given e'."""
        by_shift = add_places(self.multiply(change, self.active))
        by_scale = add_places(
            self.multiply(change, self.total).addcmul_(self.error, self.total_change)
        )
        by_scale.mul_(self.inverse).addcmul_(self.stretch, self.by_scale, value=-1)
        level, tilt = self.project(
            (self.scale * by_shift).addcmul_(self.scale_change, self.by_shift),
            (self.scale * by_scale).addcmul_(self.scale_change, self.by_scale),
        )
        level.addcmul_(self.stretch, self.level, value=-1).addcmul_(self.tilt, self.drift, value=-1)
        tilt.addcmul_(self.stretch, self.tilt, value=-2)
        result = self.memory.take("error", self.mask.shape, self.mask)
        torch.addcmul(level, self.centred, tilt, out=result).addcmul_(self.change, self.tilt)
        inner = self.multiply(change, self.factor).addcmul_(self.error, self.factor_change)
        return result.addcmul_(self.mask, inner), by_scale, by_shift


def pool(maps: Tensor) -> Tensor:
    """Add the pixels of every window; three sums of whole blocks are faster than torch's sum."""
    first, second, third, fourth = maps.unbind()
    return (first + second).add_(third).add_(fourth)


def pool_product(one: Tensor, other: Tensor) -> Tensor:
    """Add the products of two maps over the pixels of every window, without a map of products."""
    pairs = zip(one.unbind(), other.unbind(), strict=True)
    total = torch.mul(*next(pairs))
    for first, second in pairs:
        total.addcmul_(first, second)
    return total


def add_places(pooled: Tensor) -> Tensor:
    """Add the pooled values of all places: (images, places, channels) to rows."""
    return pooled.sum(dim=1, keepdim=True)


def add(maps: Tensor) -> Tensor:
    """Add all pixels: maps to rows. Two sums are ten times as fast as one over both dimensions."""
    return maps.sum(dim=2, keepdim=True).sum(dim=0)


def add_product(one: Tensor, other: Tensor) -> Tensor:
    """Add the products of two maps over all pixels: maps to rows."""
    return add_places(pool_product(one, other))
