"""What-if evaluations of the audit's tables or of files: simulate, backtest and recommend."""
