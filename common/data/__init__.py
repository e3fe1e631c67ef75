"""Data: sources, partitions, and the view that one client has.

`loading.load` returns the data set that a `dataset` line describes.
"""
