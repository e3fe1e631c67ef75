"""The commands of the command line; experiments/cli.py puts them together."""
