"""One module per file format.

Each reads the files that it is given; `fedmirage.common.data.files.sources` finds them.
"""
