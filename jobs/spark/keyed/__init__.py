"""Stages of `applyInPandasWithState` whose rows and answers are one binary column each, with or without pandas.

May import: nothing of this project.
"""
