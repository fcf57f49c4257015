"""Tests that bucket and job decide as Kafka, but for documented differences; writes docs/evidence/conformance.md."""
