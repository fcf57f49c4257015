"""The benchmark: `performance` and `algorithms` write pages and pictures of docs/, the others a table."""
