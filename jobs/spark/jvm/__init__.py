"""The JVM that a process starts for Spark: its lifecycle and its class archive."""
