"""The client halves, one file or folder per method that has one; declared in common/methods."""
