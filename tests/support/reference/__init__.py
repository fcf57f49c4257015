"""A reference model of the buckets, which shares no code with the job; chaos and replay compare the job with it."""
