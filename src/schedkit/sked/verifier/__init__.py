"""Which image a reference names and who signed it: asked of registries, in a process beside the operator."""
