"""The commands that show the deployment, its settings and its topics, and change nothing."""
