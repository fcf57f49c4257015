"""Stages of `applyInPandasWithState` whose rows and answers are one binary column each; they do not need pandas."""
