"""Sets that are made of other sets' pictures: digits in several styles, corrupted photographs.

Everything is computed for whole batches, in double precision: processors round differently in the
last places, and the server and its nodes compare the bytes that come out.
"""
