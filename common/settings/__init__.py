"""What a run is told: the configuration, the small language of its lines, and what contradicts
what."""
