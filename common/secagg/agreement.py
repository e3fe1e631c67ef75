"""The names in messages with which clients vouch for keys, draw seats, and agree on who is left."""

SIGNATURES = "signatures"  # the record with signed public keys; client/secagg/pins.py signs them
AGREE = "agree"  # the stage between Flower's third and fourth
AGREEMENT = "agreement"  # the record that brings a client its neighbours' tags
SURVIVORS = "survivors"
NODES = "nodes"  # whom tags are for; in what the server passes on, from whom they are
TAGS = "tags"
DRAW = "draw"  # the stage between Flower's first and second, if not all clients are neighbours
LOTS = "lots"  # the record that brings a client everybody's sealed lots, or the lots themselves
LOT = "lot"  # a client's random number, from which the seats are drawn
SEALED_LOT = "sealed_lot"  # its hash, by which the client is bound to it beforehand
