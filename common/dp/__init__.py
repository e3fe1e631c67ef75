"""Differential privacy: what both sides need to know."""
