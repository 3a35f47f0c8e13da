"""What every runtime must do: one suite, run inside the guest against podman, docker and containerd.

Each claim is a function that takes a Bench. `python -m runtime_suite DRIVER CLAIM...` tries them where the runtime is;
test_runtimes.py does so for all drivers and claims.
"""
