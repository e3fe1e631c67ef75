"""Secure aggregation: what both sides need to know."""
