"""What-if evaluations with Spark or of files: simulate, backtest, recommend and observe compare."""
