"""Reads what runs left in their folders; damaged files are refused by name."""
