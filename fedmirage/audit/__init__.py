"""Attacks what methods really send: what an honest-but-curious server learns of the clients."""
