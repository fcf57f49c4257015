"""Random logs, ways to cut them into batches, engines that decide them, and what must hold for the answers."""
