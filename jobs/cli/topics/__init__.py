"""The commands that create, alter and delete topics."""
