"""Evidence: the benchmark, and long proofs that the job keeps its promises; each writes a page of docs/."""
