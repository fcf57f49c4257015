"""Tests of the README's commands."""
