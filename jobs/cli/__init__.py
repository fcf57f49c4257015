"""The commands of `mutation-quota` and the options that they share.

May import: everything below `jobs.__main__`; heavy modules only inside a command.
"""
