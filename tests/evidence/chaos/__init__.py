"""Proves that no kill of the job loses, doubles or changes a decision, into docs/chaos.md."""
