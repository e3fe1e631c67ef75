"""The names in the messages with which clients vouch for their keys, and agree on who is left."""

SIGNATURES = "signatures"  # the record with signed public keys; client/secagg/pins.py signs them
AGREE = "agree"  # the stage between Flower's third and fourth
AGREEMENT = "agreement"  # the record that brings a client its neighbours' tags
SURVIVORS = "survivors"
NODES = "nodes"  # whom tags are for; in what the server passes on, from whom they are
TAGS = "tags"
