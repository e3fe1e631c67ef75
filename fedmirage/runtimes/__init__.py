"""The runtimes: the processes in which a run takes place, and how they are ended."""
