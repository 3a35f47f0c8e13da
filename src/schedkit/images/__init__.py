"""Which image: references, the catalog, registries and credentials."""
