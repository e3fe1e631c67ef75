"""What becomes of a model after training: predictions, evaluation, export, its card."""
