"""The command line, the runtimes and the benchmarks. May import everything."""
