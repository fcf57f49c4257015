"""The gateway as a server: sockets, TLS, and the questions to the enforcing job.

May import: quota.
"""
