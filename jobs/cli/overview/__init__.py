"""The commands that show the deployment, its settings and its topics, and change nothing.

May import: everything below `jobs.cli`, and the options that commands share.
"""
