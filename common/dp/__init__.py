"""Differential privacy, as both sides know it."""
