"""The operator: SchedExt resources become DaemonSets, and say what became of them."""
