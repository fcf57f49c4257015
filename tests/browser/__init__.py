"""Tests of the report's page in a browser."""
