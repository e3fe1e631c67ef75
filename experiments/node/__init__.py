"""A SuperNode that runs its own code, whatever code a run brings."""
