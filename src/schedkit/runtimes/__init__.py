"""Run it here: podman and docker by one driver, containerd by another."""
