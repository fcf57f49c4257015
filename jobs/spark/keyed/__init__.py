"""Stages of `applyInPandasWithState` whose rows are one binary column; they do not need pandas."""
