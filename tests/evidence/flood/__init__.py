"""A flood of invalid records loses no request; the delay of other requests is measured, into docs/evidence/flood.md."""
