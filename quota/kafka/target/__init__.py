"""The cluster whose topics are changed: admitted mutations are carried out on it, with retries.

May import: `quota.records`, `quota.client`, `quota.kafka`.
"""
