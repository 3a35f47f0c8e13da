"""Why a scheduler did not get into the slot, or did not stay there, from everything that was seen."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from schedkit.host.errors import EjectedError, NotAttachedError, RejectedError, SchedulerError, SlotTakenError
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.exits import ERROR_BPF, ERROR_STALL, SchedulerExit, find_kind, parse_exit
from schedkit.kernel.log import Ejection
from schedkit.kernel.names import is_same_scheduler
from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown

_SIGNALS = {9: "SIGKILL (out of memory, or killed by hand)", 11: "SIGSEGV", 6: "SIGABRT", 15: "SIGTERM"}
_PANIC = r"thread '[^']*'(?: \(\d+\))? panicked at (?:\S+/registry/src/[^/]+/)?(\S+?):?$"  # Rust: where
_KINDS = {ERROR_STALL: "stall", ERROR_BPF: "BPF error"}


class FailureEvidence(NamedTuple):
    """What was seen of one try."""

    scheduler: str
    log: tuple[str, ...]  # its last lines since the start
    ended: bool
    exit_code: int | None  # None also where its runtime would not tell
    seconds: float  # since it was started
    ejection: Ejection | Unknown | None  # the last one since the start, whosever it was
    kernel: KernelState
    kernel_lines: tuple[str, ...] = ()
    occupant: str = ""  # who has the slot if not this one: `x is attached, by process 7 (y)`
    came: bool = False  # the kernel counted an attach since the start
    ops: str | None = None  # the name by which it was seen attached
    doubt: str = ""  # something is attached and nobody could tell whose it is
    checks: Sequence[Check] = ()


def explain(evidence: FailureEvidence) -> SchedulerError:
    """The most telling thing that was seen, as an error with its exit code, a hint, and the scheduler's last lines."""
    return (
        _explain_ejection(evidence)
        or _explain_busy(evidence)
        or _explain_rejection(evidence)
        or _explain_absence(evidence)
    )


def explain_end(scheduler: str, log: tuple[str, ...], exit_code: int | None) -> SchedulerError:
    """Why one that was attached has ended, as far as it said so itself."""
    return explain(
        FailureEvidence(
            scheduler=scheduler,
            log=log,
            ended=True,
            exit_code=exit_code,
            seconds=0.0,
            ejection=None,
            kernel=KernelState(State.DISABLED),
            came=True,
        )
    )


class _Rejection(NamedTuple):
    """Words by which a refusal is known, and what they mean."""

    pattern: str
    meaning: str
    hint: str
    checks: tuple[str, ...] = ()  # those of the preflight that would explain it better
    only_a_word: bool = False  # which says nothing unless one of the checks agrees


# The first that matches counts: from what names its cause to what only names an errno.
_REJECTIONS = (
    _Rejection(
        r"malformed scx kfunc prototype|func_proto \[\d+\] incompatible with vmlinux",
        "this kernel's BTF describes sched_ext's functions wrongly (func_proto incompatible with vmlinux)",
        "boot another build of the kernel, one whose BTF was made by pahole 1.26 or later, or one of the 6.12 series;"
        " `schedctl doctor` shows more",
        ("kernel.btf_kfuncs",),
    ),
    _Rejection(
        r"isolcpus",
        "the kernel takes no scheduler while CPUs are isolated (isolcpus= on its command line)",
        "boot without isolcpus= (cpuset partitions isolate CPUs without it)",
        ("kernel.isolcpus",),
        only_a_word=True,
    ),
    _Rejection(
        r"PREEMPT_RT",
        "a real-time kernel (PREEMPT_RT) takes no BPF scheduler",
        "boot a kernel without PREEMPT_RT",
        ("kernel.preempt_rt",),
        only_a_word=True,
    ),
    _Rejection(
        r"extern \((?:func|var) ksym\) '[^']+': not found in kernel|failed to find kernel BTF type ID",
        "it needs something of the kernel that this one does not have",
        "take a version of the scheduler for this kernel (`schedctl versions`), or a newer kernel; `schedctl info`"
        " shows the least version",
    ),
    _Rejection(
        r"failed to find valid kernel BTF|kernel BTF is missing",
        "the kernel's BTF cannot be read",
        "take a kernel with CONFIG_DEBUG_INFO_BTF=y",
        ("kernel.btf",),
    ),
    _Rejection(
        r"FUNCTION_TRACER|available_filter_functions|fentry.*(?:not supported|unsupported)",
        "it needs the kernel's function tracer",
        "take a kernel with CONFIG_FUNCTION_TRACER=y; `schedctl doctor` shows more",
        ("kernel.function_tracer",),
        only_a_word=True,
    ),
    _Rejection(
        r"BEGIN PROG LOAD LOG|BPF program load failed|invalid access to|R\d+ .*(?:invalid|unbounded)|"
        r"processed \d+ insns",
        "the kernel's verifier refused its program",
        "the scheduler does not fit this kernel: try another version (`schedctl versions`)",
    ),
    _Rejection(
        r"\bEPERM\b|Operation not permitted|os error 1\)|error:? -1\b",
        "it was not permitted to load its program",
        "it needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN; is kernel lockdown on, or does a security module forbid it?"
        " `schedctl doctor` shows more",
        (
            "caps.cap_bpf",
            "caps.cap_sys_admin",
            "caps.cap_perfmon",
        ),
    ),
    _Rejection(
        r"\bEOPNOTSUPP\b|\bENOTSUPP\b|Operation not supported|os error (?:95|524)\)",
        "the kernel does not support what it asks for",
        "`schedctl doctor` shows what this kernel lacks",
        ("kernel.preempt_rt",),
    ),
    _Rejection(
        r"(?:load|attach|struct_ops|bpf).*(?:\bEINVAL\b|Invalid argument|os error 22\))|"
        r"(?:\bEINVAL\b|Invalid argument \(os error 22\))",
        "the kernel refused it as invalid (EINVAL)",
        "`schedctl doctor` shows what this kernel lacks; another version may fit (`schedctl versions`)",
        (
            "kernel.isolcpus",
            "kernel.btf_kfuncs",
        ),
    ),
    _Rejection(
        r"failed to load (?:object|BPF)|Failed to (?:load|attach)|cannot (?:load|attach)",
        "the kernel did not take its program",
        "`schedctl doctor` shows what this kernel lacks",
    ),
)
_BUSY = r"\bEBUSY\b|Device or resource busy|os error 16\)|error:? -16\b|another (?:sched_ext )?scheduler is"
_MISSING_EXECUTABLE = {126: "its program cannot be executed", 127: "its program was not found in the image"}


def _explain_ejection(evidence: FailureEvidence) -> SchedulerError | None:
    if _shows_usage(evidence.log) and not evidence.came:  # it never tried, and a help text names many things
        return None
    own = _find_own_ejection(evidence)
    said = _find_ejection(evidence, likely=own is None)
    if said is None and own is None:
        return None
    sure = (own is not None and evidence.came) or (said is not None and _is_its(evidence, said))
    reason, message = (said.reason, " ".join(said.details)) if said else ("", "")
    if own:
        reason, message = reason or own.reason, message or own.message
    kind = _KINDS.get(find_kind(reason), "error")
    detail = f": {message}" if message and message != reason else ""
    hints = {
        "stall": "a task waited longer than the scheduler's watchdog allows: a fault of the scheduler, or a machine too"
        " loaded for it; report it to its authors with these lines",
    }
    if sure:
        what = "attached, and the kernel ejected it"
    else:
        what = f"{'' if evidence.came else 'likely '}attached, and likely the kernel ejected it"
    return EjectedError(
        f"{evidence.scheduler} {what} ({kind}): {reason}{detail}",
        hint=hints.get(
            kind, "a fault of the scheduler; report it to its authors with these lines, or try another version"
        ),
        log=evidence.log,
    )


def _find_ejection(evidence: FailureEvidence, *, likely: bool) -> Ejection | None:
    """What the kernel said of this scheduler's end; if `likely` will do, of one that came since the start, too."""
    ejection = evidence.ejection
    if not isinstance(ejection, Ejection) or not ejection.is_fault:
        return None
    unnamed = likely and evidence.came and evidence.ops is None
    return ejection if unnamed or _is_its(evidence, ejection) else None


def _is_its(evidence: FailureEvidence, ejection: Ejection) -> bool:
    """Whether the kernel speaks of this scheduler."""
    if evidence.ops is not None:
        return ejection.ops == evidence.ops
    return is_same_scheduler(evidence.scheduler, ejection.ops)


def _find_own_ejection(evidence: FailureEvidence) -> SchedulerExit | None:
    """What a scheduler that was ejected says itself.

    Nothing where the kernel's count of attaches and its log both say that it was never there.
    """
    ejection = evidence.ejection
    agrees = isinstance(ejection, Unknown) or (ejection is not None and _is_its(evidence, ejection))
    if isinstance(evidence.kernel.enable_seq, int) and not evidence.came and not agrees:
        return None
    return parse_exit(evidence.log)


def _explain_busy(evidence: FailureEvidence) -> SchedulerError | None:
    busy = _find(_BUSY, evidence.log)
    if evidence.occupant:
        return SlotTakenError(
            f"{evidence.scheduler} did not get the slot: {evidence.occupant}",
            hint="`schedctl status` shows who has it; `schedctl stop` or `schedctl detach` ends it",
            log=evidence.log,
        )
    if not busy or not evidence.ended or evidence.exit_code == 0 or _shows_usage(evidence.log):
        return None
    return SlotTakenError(
        f"{evidence.scheduler} was refused as busy (EBUSY), though nothing is attached now: likely another scheduler"
        " was there for a moment, or a CPU went on- or offline meanwhile",
        hint="try again; `schedctl doctor` shows other managers that start schedulers",
        log=evidence.log,
    )


def _explain_rejection(evidence: FailureEvidence) -> SchedulerError | None:
    # What still runs was not refused, nor what ended in peace, whatever it prints; a help text names many things.
    if not evidence.ended or evidence.exit_code == 0 or evidence.came or _shows_usage(evidence.log):
        return None
    for rejection in _REJECTIONS:
        check = _find_bad(evidence.checks, rejection.checks)
        told = evidence.log if check or not rejection.only_a_word else ()
        line = _find(rejection.pattern, (*told, *evidence.kernel_lines))
        if not line:
            continue
        seen = f" ({check.name}: {check.seen})" if check else ""
        said = _shorten(_find_verdict(evidence.log) or line)
        return RejectedError(
            f"{evidence.scheduler} was refused: {rejection.meaning}{seen}: {said}",
            hint=(check and check.fix) or rejection.hint,
            log=evidence.log,
        )
    return None


def _find_verdict(log: Sequence[str]) -> str:
    """The verifier's last word, which comes right before its count of instructions."""
    for before, line in pairwise(log):
        if re.match(r"processed \d+ insns", line):
            return before
    return ""


def _explain_absence(evidence: FailureEvidence) -> SchedulerError:
    if evidence.doubt:
        return NotAttachedError(
            f"whether {evidence.scheduler} attached is not known: {evidence.doubt}",
            hint="run it as root; `schedctl status` shows what can be seen",
            log=evidence.log,
        )
    if not evidence.ended and evidence.came:
        return NotAttachedError(
            f"{evidence.scheduler} attached and left again at once, though it still runs; the kernel says"
            f" {_tell_state(evidence.kernel)}",
            hint="dmesg may show why",
            log=evidence.log,
        )
    if not evidence.ended:
        hint = "give it longer with --timeout" if evidence.kernel.state is not State.ENABLED else ""
        return NotAttachedError(
            f"{evidence.scheduler} runs and has not attached after {evidence.seconds:.0f} s; the kernel says"
            f" {_tell_state(evidence.kernel)}",
            hint=hint,
            log=evidence.log,
        )
    last = _find_reason(evidence.log)
    said = f": {_shorten(last)}" if last else ", and said nothing"
    when = "after it had attached" if evidence.came else "before it attached"
    return NotAttachedError(
        f"{evidence.scheduler} ended {when}, {_tell_exit(evidence.exit_code)}{said}",
        hint="its arguments may be wrong: those after -- go to the scheduler" if _shows_usage(evidence.log) else "",
        log=evidence.log,
    )


def _shows_usage(log: Sequence[str]) -> bool:
    return bool(_find(r"(?i)^\s*usage:|unexpected argument|unrecognized option", log))


def _tell_state(kernel: KernelState) -> str:
    return f"nothing ({kernel.state.why})" if isinstance(kernel.state, Unknown) else str(kernel.state)


def _tell_exit(code: int | None) -> str:
    if code is None:
        return "its exit code is not known"
    if code in _MISSING_EXECUTABLE:
        return f"exit code {code} ({_MISSING_EXECUTABLE[code]})"
    if code > 128:
        return f"by signal {_SIGNALS.get(code - 128, str(code - 128))}"
    return f"with exit code {code}"


def _find_reason(log: Sequence[str]) -> str:
    """The line that says why: an anyhow chain's innermost cause with its head, a panic's words, else the last line."""
    head = next((line[len("error:") :].strip() for line in log if line.lower().startswith("error:")), "")
    causes = list(_read_causes(log))
    if head:
        return f"{head}: {causes[-1]}" if causes else head
    for line, following in pairwise(log):  # a panic says where, and in the next line what
        if panic := re.match(_PANIC, line):
            return f"panicked at {panic[1]}: {following}"
    return log[-1] if log else ""


def _read_causes(log: Sequence[str]) -> Iterator[str]:
    inside = False
    for line in log:
        if line.startswith("Caused by:"):
            inside = True
        elif inside and line.startswith((" ", "\t")):
            yield re.sub(r"^\s*(?:\d+: )?", "", line)
        else:
            inside = False


def _find(pattern: str, lines: Sequence[str]) -> str:
    found = re.compile(pattern)
    return next((line for line in lines if found.search(line)), "")


def _find_bad(checks: Sequence[Check], names: Sequence[str]) -> Check | None:
    return next((one for one in checks if one.name in names and one.outcome in (Outcome.ERROR, Outcome.WARNING)), None)


def _shorten(line: str) -> str:
    line = line.strip()
    return line if len(line) <= 200 else line[:200] + " …"
