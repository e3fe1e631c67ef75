"""One page that shows runs and comparisons, and opens from disk without a network."""
