"""Proves that a flood of invalid records loses no request, and measures delays; writes docs/evidence/flood.md."""
