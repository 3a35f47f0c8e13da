"""One machine's lifecycle of schedulers: run, switch, stop, status. Knows no terminal."""
