"""The documents that commands print with `--output json`."""
