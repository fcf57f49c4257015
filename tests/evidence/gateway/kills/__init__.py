"""Tests that a killed gateway forwards nothing undecided, and charges no added partition and no deletion twice."""
