"""Repeats KIP-599's experiment, a storm of topics without a quota and with one, into docs/evidence/experiment."""
