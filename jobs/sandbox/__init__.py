"""Programs to try the project: an embedded broker, KIP-599's worked example, and everything at once."""
