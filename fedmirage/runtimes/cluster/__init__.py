"""A Ray cluster that somebody else has started: its hosts train clients, or do whole runs."""
