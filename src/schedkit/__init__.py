"""schedkit: Linux CPU schedulers (sched_ext) delivered as OCI images."""

__version__ = "0.1.0.dev0"
