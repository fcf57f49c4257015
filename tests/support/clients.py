"""The configuration that the plain Kafka clients of tests share."""

QUIET = {"log_level": 2}
"""Silences librdkafka's own log, as the project's clients do.

A test may stop the broker before its clients. Each client would print to standard error that it cannot connect, in the
middle of pytest's output.
"""
