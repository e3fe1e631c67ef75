"""Labelled images that no data set holds, or that one lends: what VHL gives to all its clients.

The networks that make them are never trained. Everything random comes from one seed, and is computed on the CPU with one thread.
"""
