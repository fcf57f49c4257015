"""The address of a broker."""

Address = tuple[str, int]
"""Host and port."""
