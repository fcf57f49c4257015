"""The requests to the clusters, in parts."""
