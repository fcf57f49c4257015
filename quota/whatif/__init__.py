"""What-if: simulation, backtests of other quotas, and recommended quotas."""
