"""Which data sets there are, and what can be set about each."""
