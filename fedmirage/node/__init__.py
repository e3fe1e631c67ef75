"""A SuperNode whose messages are answered by processes of ours, quickly and with its own code."""
