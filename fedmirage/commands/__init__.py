"""The commands of the command line; fedmirage/cli.py puts them together."""
