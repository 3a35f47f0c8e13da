"""Other managers of schedulers on this machine, and the command that ends each one's hold on the slot."""

_HAND_OVER = "schedctl import scx_loader"
_SCX = "systemctl disable --now scx"
PROCESSES = {"scx_loader": _HAND_OVER, "bpfman": "systemctl stop bpfman"}
UNITS = {"scx_loader.service": _HAND_OVER, "scx.service": _SCX}
SCHEDULER_UNITS = {"scx.service": _SCX}  # the process is the scheduler itself, whatever its name
