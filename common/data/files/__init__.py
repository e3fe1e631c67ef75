"""From files to arrays: where they are looked for, and how each format is read."""
