"""Partitions: which client holds which training samples.

`named.split` is a pure function of its arguments. Every part is an ascending array of positions in
the training split, no sample is in two parts, and no part is empty. All samples are used, except
where a partition says otherwise (`draw` also says that clients share samples).
"""
