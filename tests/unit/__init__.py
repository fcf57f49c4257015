"""Tests without Spark and Kafka, in folders that mirror the packages."""
