"""Jobs that are killed while requests flow, what they leave behind, and a verdict on it."""
