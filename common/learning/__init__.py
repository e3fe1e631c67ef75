"""Losses, metrics and augmentation: what training is made of on either side."""
