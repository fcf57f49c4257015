"""What-if: simulation, backtests of other quotas, and recommended quotas.

May import: records, timeline, callbacks, algorithms, admission.
"""
