"""One module a command: its options, what it gathers, and how that is shown."""
