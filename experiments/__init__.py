"""Running and comparing: the command line, the runtimes, the benchmarks. May import everything."""
