"""The state of a deployment and its problems, read without Spark or a JVM."""
