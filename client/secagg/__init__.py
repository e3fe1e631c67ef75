"""Secure aggregation on the client."""
