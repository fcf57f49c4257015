"""The benchmark: `performance` writes a page of docs/, and `guard` checks what is cheap to measure of it."""
