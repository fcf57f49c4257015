"""Proves that a killed gateway lets nothing pass undecided, and charges no growth and no deletion twice."""
