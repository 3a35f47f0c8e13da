"""Made-up roots: the files of a kernel's /sys and /proc as the kernels of the lab showed them."""

from pathlib import Path

SCHED_EXT = "sys/kernel/sched_ext"
FREE = {"state": "disabled", "switch_all": "0", "nr_rejected": "0", "hotplug_seq": "1", "enable_seq": "3"}
ATTACHED = FREE | {"state": "enabled", "switch_all": "1", "enable_seq": "4", "root/ops": "schedkit_fifo"}


def write_files(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


def write_sched_ext(root: Path, files: dict[str, str]) -> Path:
    """A root whose kernel says this of sched_ext."""
    write_files(root / SCHED_EXT, files)
    return root


def write_process(
    root: Path, pid: int, command: str, cgroup: str = "0::/", files: dict[str, str] | None = None
) -> None:
    """A process with these descriptors: what each is, and its fdinfo."""
    write_files(root / f"proc/{pid}", {"comm": command, "cgroup": cgroup})
    (root / f"proc/{pid}/fd").mkdir(exist_ok=True)
    for number, (kind, fields) in enumerate((files or {}).items()):
        (root / f"proc/{pid}/fd/{number}").symlink_to(kind)
        write_files(root / f"proc/{pid}/fdinfo", {str(number): fields})
