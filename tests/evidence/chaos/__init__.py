"""Tests that no kill of the job loses, duplicates or changes a decision; writes docs/evidence/chaos.md."""
