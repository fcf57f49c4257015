"""What-if evaluations with Spark or of files: simulate, backtest and recommend."""
