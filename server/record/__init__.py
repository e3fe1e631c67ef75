"""What a run writes: results, checkpoints, models; and the scores of its models."""
