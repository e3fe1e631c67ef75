"""The messages between server and clients, and the names of the arrays in them."""
