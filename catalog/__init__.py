"""The recipes of the catalog's images."""
