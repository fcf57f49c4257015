"""Tests of the commands that list and change quotas, callbacks, buckets and dead letters."""
