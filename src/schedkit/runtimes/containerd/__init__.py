"""containerd over gRPC, in its namespace `schedkit`. Importing this imports grpc: do it where it is used."""

import os

# grpc's own messages would land between our lines; what matters of it is in our errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from schedkit.runtimes.containerd.driver import Containerd

__all__ = ["Containerd"]
