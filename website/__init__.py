"""The documentation site, made from docs/: `make docs`, `make docs-serve`, `make docs-check`."""
