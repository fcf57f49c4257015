"""Tests of other projects, run at a broker and at the gateway."""
