"""What is made of the replies: the average, and the wrappers round it."""
