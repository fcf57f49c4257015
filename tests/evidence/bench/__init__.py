"""The benchmark: `performance` writes docs/performance.md, `algorithms` docs/algorithms.svg, the others a table."""
