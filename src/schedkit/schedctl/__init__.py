"""The command line for one machine."""
