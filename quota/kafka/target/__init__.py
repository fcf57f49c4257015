"""The cluster whose topics are changed: admitted mutations are carried out on it, with retries."""
