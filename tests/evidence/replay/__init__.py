"""Proves that the decisions do not depend on how the stream is cut into batches, into docs/evidence/replay.md."""
