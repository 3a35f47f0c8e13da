"""Which scheduler is better for a command: in which order to run it, what a run took, and what the numbers tell."""
