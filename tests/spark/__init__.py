"""Tests of transforms and of file-driven streams on Spark, without Kafka."""
