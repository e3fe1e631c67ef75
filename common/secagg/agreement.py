"""The names in the messages with which clients agree on who is left; keys.py makes the tags."""

AGREE = "agree"  # the stage between Flower's third and fourth
AGREEMENT = "agreement"  # the record that brings a client its neighbours' tags
SURVIVORS = "survivors"
TARGETS = "nodes"  # whom tags are for; in what the server passes on, from whom they are
TAGS = "tags"
