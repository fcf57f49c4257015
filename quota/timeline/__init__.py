"""The quota log over time: the change that each record makes, and the quota in force at a time."""
