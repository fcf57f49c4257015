"""Long proofs and measurements of the gateway."""
