"""Proves that a gateway that is killed lets nothing pass undecided and charges nothing twice; it writes no page."""
