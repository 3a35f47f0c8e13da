"""Which image a reference names and who vouches for it: asked of registries, in a process beside the operator."""
