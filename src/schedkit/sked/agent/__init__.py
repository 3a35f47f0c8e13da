"""The node's voice: what its kernel is doing, told as a SchedExtNode. It holds no privilege and little memory."""
