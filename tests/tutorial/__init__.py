"""The tutorials, run as printed."""
