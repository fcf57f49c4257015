"""The project's job next to a real broker that enforces its own quota."""
