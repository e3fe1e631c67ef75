"""Secure aggregation, as both sides know it."""
