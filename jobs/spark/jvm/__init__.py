"""The JVM that a process starts for Spark: its life, and the class archive that it starts from.

May import: quota.
"""
