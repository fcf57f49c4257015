"""Proves that a flood of garbage loses no request, and measures how it delays others, into docs/evidence/flood.md."""
