"""One file per logger; `--log` knows it by the name of the file."""
