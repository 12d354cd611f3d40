"""Record and replay: one instrumented pair of runs, compared call by call and priced as a graph."""
