"""The units that make a scheduler last: their text, and the choice that stands in it. Pure, but for reading files.

A choice is kept in the unit itself, in a section that systemd leaves to others: one file says what runs, and how.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schedkit.errors import BadDataError, ExitCode, UsageError
from schedkit.host.model import Restart, parse_restart
from schedkit.unknown import Unknown

ENABLED = "schedkit.service"  # starts at boot
RERUN = "schedkit-run.service"  # of `run --restart`: gone with the next boot
TRIAL = "schedkit-trial.service"
RESTARTS = 5  # that the enabled scheduler gets
FILES = {ENABLED: f"etc/systemd/system/{ENABLED}", RERUN: f"run/systemd/system/{RERUN}"}
AT_BOOT = f"etc/systemd/system/multi-user.target.wants/{ENABLED}"

_SECTION, _KEY = "[X-Schedkit]", "Choice="
_FAILURE_SECONDS = 120  # what one failure takes at most: to attach, to stall, and the pause after it
_FIRST_PAUSE = 1
_FIRST_PAUSE_ENDLESS = 5  # before systemd 254 pauses do not grow: without a limit, a short one would be a busy loop
_LONGEST_PAUSE = 60
_PAUSE_STEPS = 6
# Starting it again cannot help: the slot is taken, the kernel or the policy refuses it, the unit is wrong.
_FINAL = (
    *(ExitCode.SLOT_TAKEN, ExitCode.REJECTED, ExitCode.KERNEL_UNFIT),
    *(ExitCode.UNSIGNED, ExitCode.UNTRUSTED, ExitCode.EXPIRED, ExitCode.NO_LOG_ENTRY, ExitCode.BAD_SIGNATURE),
    *(ExitCode.USAGE, ExitCode.BAD_DATA, ExitCode.NO_PERMISSION),
)
_RUNTIME_UNITS = {"podman": "podman.socket", "docker": "docker.service", "containerd": "containerd.service"}


class Choice(NamedTuple):
    """A scheduler that shall last: everything that running it again takes, resolved, verified and pinned."""

    scheduler: str
    image: str  # pinned: with `digest` in it
    digest: str  # of what the name meant when it was chosen
    driver: str
    socket: str
    verified: str  # as Label.VERIFIED says it
    restart: str  # as Label.RESTART says it
    args: tuple[str, ...] = ()
    mode: str = ""  # what `args` were made from, to be shown
    files: tuple[str, ...] = ()  # of this machine, that the scheduler reads
    name: str | None = None  # of the container
    env: Mapping[str, str] = {}
    host_network: bool = False
    unprivileged: bool = False
    timeout: float = 30.0
    trust_policy: str = ""
    allow_unsigned: bool = False
    insecure_registries: tuple[str, ...] = ()
    cache: str = ""  # where the verdict on it is kept
    manifest: str = ""  # the digest of this platform's manifest, which is what runs; units of before do not say it

    @property
    def needs_network(self) -> bool:
        """Whether it was let in without a trusted signature, which only its registry can confirm."""
        return self.verified.endswith("-allowed")


def render_unit(choice: Choice, program: Sequence[str], unit: str) -> str:
    """The whole text of ENABLED or RERUN; `program` is this schedctl, by absolute path."""
    after = [_RUNTIME_UNITS.get(choice.driver, "")] + (["network-online.target"] if choice.needs_network else [])
    wanted = " ".join(one for one in after if one)
    restart = parse_restart(choice.restart)
    install = ["", "[Install]", "WantedBy=multi-user.target"] if unit == ENABLED else []
    words = " ".join(quote(word) for word in (*program, "service", unit))
    return "\n".join(
        [
            "# Written by schedctl: `schedctl enable` and `schedctl disable` change it.",
            "[Unit]",
            f"Description=CPU scheduler {choice.scheduler.replace('%', '%%')} (sched_ext)",
            *([f"Wants={wanted}", f"After={wanted}"] if wanted else []),
            *_limit(restart),
            "",
            "[Service]",
            "Type=exec",
            f"ExecStart={words}",
            "Restart=on-failure",
            f"RestartSec={_FIRST_PAUSE if restart.times is not None else _FIRST_PAUSE_ENDLESS}",
            f"RestartSteps={_PAUSE_STEPS}",  # from systemd 254 on; before it, the pause stays what it is
            f"RestartMaxDelaySec={_LONGEST_PAUSE}",
            "RestartPreventExitStatus=" + " ".join(str(int(code)) for code in _FINAL),
            f"SuccessExitStatus={int(ExitCode.INTERRUPTED)}",
            "KillMode=mixed",
            "TimeoutStopSec=60",
            *install,
            "",
            _SECTION,
            f"{_KEY}{_encode(choice)}",
            "",
        ]
    )


def _limit(restart: Restart) -> list[str]:
    """So many failures that follow each other closely, and no more; one that ran for long starts counting from zero."""
    if restart.times is None:
        return ["StartLimitIntervalSec=0"]
    starts = restart.times + 1
    return [f"StartLimitIntervalSec={starts * _FAILURE_SECONDS}", f"StartLimitBurst={starts}"]


def quote(word: str) -> str:
    """A word of a command line as systemd reads it: neither specifiers nor variables in it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(sign in word for sign in " \t\"'\\;") or not word else escaped


def _encode(choice: Choice) -> str:
    import json

    defaults = Choice._field_defaults
    fields = choice._asdict().items()
    return json.dumps({name: value for name, value in fields if name not in defaults or value != defaults[name]})


def parse_choice(text: str, origin: str) -> Choice:
    """The choice in a unit's text; BadDataError if somebody else wrote it, or changed it."""
    lines = text.partition(f"{_SECTION}\n")[2].splitlines()
    said = next((line.removeprefix(_KEY) for line in lines if line.startswith(_KEY)), None)
    hint = "`schedctl enable` writes it again, `schedctl disable` removes it"
    if said is None:
        raise BadDataError(f"{origin} was not written by schedctl: it has no {_SECTION}", hint=hint)
    import json

    try:
        fields: dict[str, Any] = json.loads(said)
        choice = Choice(**{name: _take(name, value) for name, value in fields.items()})
        parse_restart(choice.restart)
    except (ValueError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise BadDataError(f"{origin}: the scheduler stored in it cannot be read: {error}", hint=hint) from error
    return choice


def _take(name: str, value: object) -> Any:
    """A field's value in its type, as far as JSON has lost it; TypeError for one of another type."""
    if name in ("args", "files", "insecure_registries"):
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
    elif name == "env":
        if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
            return value
    elif name in ("host_network", "unprivileged", "allow_unsigned"):
        if isinstance(value, bool):
            return value
    elif name == "timeout":
        if isinstance(value, (int, float)) and value > 0:
            return float(value)
    elif isinstance(value, str):
        return value
    raise TypeError(f"{name} is {value!r}")


def read_choice(root: Path, unit: str) -> Choice | Unknown | None:
    """What a unit's file says; None without one, Unknown where it cannot be read or makes no sense."""
    path = root / FILES[unit]
    try:
        return parse_choice(path.read_text(), str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Unknown(f"{path}: {error.strerror}")
    except BadDataError as error:
        return Unknown(error.message)
    except UnicodeDecodeError:
        return Unknown(f"{path} is not text")


def is_at_boot(root: Path) -> bool:
    """Whether systemd starts ENABLED at boot."""
    return os.path.lexists(root / AT_BOOT)


def is_running(root: Path, unit: str) -> bool:
    """Whether a unit has a process now, by its control group: systemd need not be asked."""
    groups = root / "sys/fs/cgroup"
    return any(os.path.lexists(groups / tree / "system.slice" / unit) for tree in ("", "unified", "systemd"))
