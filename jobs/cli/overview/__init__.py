"""The commands that show what there is and change nothing: the deployment, its settings, and topics.

May import: everything below `jobs.cli`, and the options that commands share.
"""
