"""The commands that read brokers' request logs."""
