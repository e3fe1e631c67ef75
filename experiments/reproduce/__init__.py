"""The papers' tables: what is in them, what it costs to run them, and what came out here."""
