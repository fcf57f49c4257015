"""Imports and follows the request log files of brokers."""
