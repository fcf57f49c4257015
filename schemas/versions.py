"""The versions of the stored data, which are known without the packages of Spark."""

STATE = 3
DECISIONS = 10
DEAD_LETTERS = 1
QUOTA_CHANGES = 4
