"""What is written down: results, checkpoints, scores."""
