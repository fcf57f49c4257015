"""The quota topic: its log, read to the log end offset of its longest replica, and changes written to it."""
