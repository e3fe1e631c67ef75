"""A SuperLink that stays: its keys and certificates, whom it admits, and how it is getting on."""
