"""The quota log over time: the change that each record makes, the quota in force at a time, plans and quota files."""
