"""Proves that a flood of garbage loses no request, and measures how it delays good ones, into docs/flood.md."""
