"""SchedExts become DaemonSets and status: pure planning, then one writer."""
