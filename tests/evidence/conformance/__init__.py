"""Proves that bucket and job decide as Kafka, but for documented differences, into docs/evidence/conformance.md."""
