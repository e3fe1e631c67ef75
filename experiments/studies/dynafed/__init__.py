"""What DynaFed's set is worth."""
