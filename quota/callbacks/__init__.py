"""KIP-257: who shares a quota and how much it is, by a class of the operator's own."""
