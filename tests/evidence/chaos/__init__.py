"""Proves that no kill of the job loses, doubles or changes a decision, into docs/evidence/chaos.md."""
