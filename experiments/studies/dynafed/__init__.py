"""Shows what DynaFed's synthetic set is worth."""
