"""The configuration that the plain Kafka clients of tests share."""

QUIET = {"log_level": 2}
"""Keeps librdkafka's own log quiet, as that of the project's clients.

A test may stop the broker before its clients end: each of them would write that it cannot connect to standard error, in
the middle of what pytest prints.
"""
