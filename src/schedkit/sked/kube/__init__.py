"""A thin Kubernetes runtime on aiohttp and msgspec: it knows the API server, and nothing of schedulers."""
