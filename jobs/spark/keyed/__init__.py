"""Stages of `applyInPandasWithState` whose rows are one binary column; with a known PySpark they need no pandas."""
