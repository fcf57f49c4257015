"""Reads buckets from the state store, to list them or to move them to another checkpoint."""
