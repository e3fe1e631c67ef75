"""From files to arrays: where files are searched for, and how each format is read."""
