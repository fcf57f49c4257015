"""The commands that evaluate recorded requests and decisions."""
