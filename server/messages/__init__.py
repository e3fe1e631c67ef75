"""One round of messages: which clients are asked, what they reply, and which replies count."""
