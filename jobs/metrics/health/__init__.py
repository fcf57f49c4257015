"""The health of services, and the HTTP server that serves health and metrics."""
