"""The tests: `unit` mirrors the packages, `evidence` has the long proofs, `support` their shared code."""
