"""Invalid records at full speed, and the comparison of the request topic with its answers."""
