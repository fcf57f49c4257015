"""The project's job compared with a real broker that enforces its own quota."""
