"""Studies of single methods, beside their runs."""
