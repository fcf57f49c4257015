"""The tutorials, run as they stand."""
