"""Request logs that real brokers of several versions write, and what their clients asked and were answered."""
