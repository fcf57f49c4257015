"""Proves that an applier that is killed carries out each admitted change once, and nothing else; it writes no page."""
