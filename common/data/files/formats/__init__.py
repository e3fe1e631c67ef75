"""One module per file format.

Each reads the files that it is given; `common.data.files.sources` finds them.
"""
