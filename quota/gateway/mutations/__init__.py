"""The mutations of one client's request: validated by the cluster, decided, and carried out if admitted."""
