"""The streaming query that decides mutation requests: it writes decisions and dead letters."""
