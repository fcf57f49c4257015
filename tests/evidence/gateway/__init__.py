"""Long tests and measurements of the gateway."""
