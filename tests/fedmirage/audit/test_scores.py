"""PSNR and SSIM, against values worked by hand, and the pairing of images."""

import numpy as np
import pytest
import torch

from fedmirage.audit.inversion.scores import SPREAD, WINDOW, assign, psnr, ssim


def test_psnr_of_a_constant_difference() -> None:
    """A difference of 0.1 everywhere has the mean square 0.01, which is 20 dB."""
    image = torch.full((1, 1, 4, 4), 0.5)
    assert psnr(image, image + 0.1).item() == pytest.approx(20.0, abs=1e-4)
    assert psnr(image, image).item() == pytest.approx(100.0)


def test_ssim_of_one_window() -> None:
    """An image as large as the window has one value, by the formula of Wang et al."""
    generator = torch.Generator().manual_seed(1)
    one, other = (torch.rand(1, 1, WINDOW, WINDOW, generator=generator).double() for _ in range(2))
    place = np.arange(WINDOW) - WINDOW // 2
    line = np.exp(-(place**2) / (2 * SPREAD**2))
    weights = np.outer(line, line) / np.outer(line, line).sum()
    x, y = one[0, 0].numpy(), other[0, 0].numpy()
    mx, my = (weights * x).sum(), (weights * y).sum()
    vx, vy = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum()
    both = (weights * (x - mx) * (y - my)).sum()
    expected = (2 * mx * my + 1e-4) * (2 * both + 9e-4)
    expected /= (mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4)
    assert ssim(one, other).item() == pytest.approx(expected, abs=1e-9)
    assert ssim(one, one).item() == pytest.approx(1.0)


def test_images_are_paired_whatever_their_order() -> None:
    images = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    order = torch.tensor([3, 0, 4, 1, 2])
    ours, theirs = assign(images[order] + 0.01, images)
    assert torch.equal(order[ours], theirs)
