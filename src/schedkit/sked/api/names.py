"""The names of sked's kinds, apart from their types: who only names them, as the agent, imports nothing else."""

GROUP = "sked.schedkit.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"

KIND = "SchedExt"
PLURAL = "schedexts"
NODE_KIND = "SchedExtNode"
NODE_PLURAL = "schedextnodes"
