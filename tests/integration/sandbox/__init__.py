"""Tests of the embedded broker and cluster."""
