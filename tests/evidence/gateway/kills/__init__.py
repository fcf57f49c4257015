"""Tests that a killed gateway forwards nothing undecided, and charges nothing twice, or for what is not made."""
