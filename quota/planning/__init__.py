"""What quotas ought to be: quota files, plans, warnings, and the quotas of a cluster whose brokers enforce them."""
