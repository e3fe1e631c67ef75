"""One round of messages: who is asked, what comes back, what of it counts."""
