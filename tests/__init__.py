"""The tests: `unit` mirrors the packages, `evidence` holds the long proofs, `support` what they share."""
