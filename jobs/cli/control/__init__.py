"""The commands that describe and change quotas, buckets, callbacks and users' topics."""
