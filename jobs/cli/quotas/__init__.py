"""`mutation-quota quotas`: the commands on quotas, and what they share."""
