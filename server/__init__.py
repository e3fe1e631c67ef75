"""The centre: a Flower strategy, its wrappers, and the rounds. Imports `common` only."""
