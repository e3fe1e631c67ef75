"""Losses, metrics and augmentation, for the training of clients and server."""
