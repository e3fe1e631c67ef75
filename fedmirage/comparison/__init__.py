"""Comparisons: methods against each other and against their placebos, over seeds."""
