"""The client's half of KIP-599 and KIP-219, without I/O: when to send, how long to be muted, what to carry out."""
