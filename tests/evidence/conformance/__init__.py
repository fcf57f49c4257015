"""Compares bucket and codec with Kafka's classes, but for intended differences; writes docs/evidence/conformance.md."""
