"""Applications that change topics far above their quotas, and checks of what they leave behind."""
