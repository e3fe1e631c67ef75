"""A run's configuration, the small language of its lines, and the rules for contradictions."""
