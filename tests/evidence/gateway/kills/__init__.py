"""Proves that a killed gateway lets nothing pass undecided and charges nothing twice, into docs/gateway-kills.md."""
