"""Features of a finished run, mapped with t-SNE."""
