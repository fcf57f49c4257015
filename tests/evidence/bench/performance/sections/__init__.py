"""The sections of the benchmark: each function measures one and returns its figures."""
