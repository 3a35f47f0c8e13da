"""How much a node's report tells at most: limits of the resource definition that the agent keeps to."""

PROBLEMS_TOLD = 16
SUB_SCHEDULERS_TOLD = 16
OPS_LENGTH = 128  # the kernel's own limit
TEXT_LENGTH = 512
MOST_EJECTIONS = 100  # that a quarantine may ask for
LARGEST_NUMBER = 2**63 - 1
