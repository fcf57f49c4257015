"""The topics of a deployment: their specs, their creation, and the checks of existing ones."""
