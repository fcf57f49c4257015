"""The commands that create, alter and delete topics.

May import: everything below `jobs.cli`, and the options that commands share.
"""
