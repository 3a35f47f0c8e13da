"""Whether a scheduler's name and the kernel's ops name mean the same scheduler."""

_PREFIX = "scx_"
_OTHER_NAMES = {"gthulhu": "goland"}  # its BPF part is that of scx_goland_core, and says so


def is_same_scheduler(name: str, ops: str) -> bool:
    """`scx_rusty` is `rusty`, `rusty_1.1.4_x86_64_unknown_linux_gnu` and `scx_rusty`, but not `rustland`."""
    wanted = name.replace("-", "_").removeprefix(_PREFIX)  # the kernel takes no hyphen in an ops name
    seen = ops.removeprefix(_PREFIX)
    if not wanted:
        return False
    return any(_is_version_of(known, seen) for known in (wanted, _OTHER_NAMES.get(wanted, wanted)))


def _is_version_of(name: str, ops: str) -> bool:
    if ops == name:
        return True
    suffix = ops.removeprefix(name + "_")
    return suffix != ops and _starts_with_version(suffix)


def _starts_with_version(suffix: str) -> bool:
    """`1.1.4_g85f140fd_x86_64_unknown_linux_gnu`: at least two numbers and a point come first."""
    numbers = suffix.split("_", 1)[0].split(".")
    return len(numbers) >= 2 and numbers[0].isdecimal() and numbers[1].isdecimal()
