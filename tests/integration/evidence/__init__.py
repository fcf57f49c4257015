"""Short forms of the long proofs."""
