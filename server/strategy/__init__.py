"""What the server does with the replies: the average, and the wrappers around it."""
