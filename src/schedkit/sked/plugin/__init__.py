"""`kubectl scx`: what people do to rollouts and nodes, through API objects only."""
