"""The admission of requests: a record of the request topic becomes a decision or a dead letter."""
