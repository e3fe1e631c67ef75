"""What crosses the wire, and what the arrays in it are called."""
