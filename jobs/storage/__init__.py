"""The storage root of a deployment: its files, its checkpoints, and the topics that they belong to."""
