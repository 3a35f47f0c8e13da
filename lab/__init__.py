"""A disposable real machine and a real Kubernetes control plane, for demos and tests."""
