"""Words that schedulers, libbpf and kernels really said, and what we make of them."""

import pytest

from schedkit.host.errors import EjectedError, NotAttachedError, RejectedError, SchedulerError, SlotTakenError
from schedkit.host.explain import FailureEvidence, explain, explain_end
from schedkit.kernel.check import Check, Outcome
from schedkit.kernel.log import Ejection
from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown

VERIFIER = """\
libbpf: prog 'fixture_enqueue': BPF program load failed: Permission denied
libbpf: prog 'fixture_enqueue': -- BEGIN PROG LOAD LOG --
14: (79) r2 = *(u64 *)(r3 +0)
R3 unbounded memory access, make sure to bounds check any such access
processed 13 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 1
-- END PROG LOAD LOG --
libbpf: prog 'fixture_enqueue': failed to load: -13
libbpf: failed to load object 'scheduler'
libbpf: failed to load BPF skeleton 'scheduler': -13
cannot load schedkit_reject: EACCES (Permission denied)"""
# scx_rusty 1.1.4 and scx_bpfland 1.1.4 on Debian's 7.2
RUSTY = """\
14:22:22 [INFO] Running scx_rusty (build ID: 1.1.4 x86_64-unknown-linux-gnu)
14:22:26 [WARN] libbpf: extern (func ksym) 'scx_bpf_create_dsq': func_proto [544] incompatible with vmlinux [48700]
14:22:26 [WARN] libbpf: failed to load BPF skeleton 'bpf_bpf': -EINVAL
Error: the running kernel's BTF has malformed scx kfunc prototype(s): scx_bpf_cid_curr, scx_bpf_cpu_rq …
These kfuncs are KF_IMPLICIT_ARGS but their public BTF prototype
Caused by:
    0: Failed to load BPF program
    1: Invalid argument (os error 22)"""
BPFLAND = """\
14:25:31 [INFO] scheduler flags: 0x36
Error: the running kernel's BTF has malformed scx kfunc prototype(s): scx_bpf_cid_curr, scx_bpf_cpu_rq …
vmlinux'. This happens when the kernel was built with pahole < 1.26.
Caused by:
    0: Failed to load BPF program
    1: Invalid argument (os error 22)"""
STALL = 'ejected schedkit_stall: kind=1026 code=0 reason="runnable task stall" message="sh[214] failed to run for 5.1s"'


def see(log: str = "", **fields: object) -> FailureEvidence:
    evidence = {
        "scheduler": "scx_x",
        "log": tuple(log.splitlines()),
        "ended": True,
        "exit_code": 1,
        "seconds": 2.0,
        "ejection": None,
        "kernel": KernelState(State.DISABLED),
    }
    return FailureEvidence(**(evidence | fields))  # type: ignore[arg-type]


PANIC = """\
thread 'main' (7) panicked at /x/cargo/registry/src/index-1f/scx_utils-1.1/src/main.rs:42:9:
index out of bounds: the len is 1 but the index is 1
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"""


@pytest.mark.parametrize(
    ("log", "error", "words"),
    [
        (VERIFIER, RejectedError, "the kernel's verifier refused its program: R3 unbounded memory access"),
        (
            "cannot attach schedkit_fifo: EBUSY (Device or resource busy): another scheduler is attached",
            SlotTakenError,
            "EBUSY",
        ),
        ("Error: another sched_ext scheduler is already running", SlotTakenError, "EBUSY"),
        (RUSTY, RejectedError, "BTF describes sched_ext's functions wrongly (func_proto incompatible with vmlinux)"),
        (BPFLAND, RejectedError, "BTF describes sched_ext's functions wrongly (func_proto incompatible with vmlinux)"),
        (STALL, EjectedError, "(stall): runnable task stall: sh[214] failed to run for 5.1s"),
        ("failed schedkit_mortal: its 2 seconds are over", NotAttachedError, "its 2 seconds are over"),
        ("cannot load x: EPERM (Operation not permitted)", RejectedError, "not permitted"),
        ("cannot attach x: EINVAL (Invalid argument)", RejectedError, "EINVAL"),
        ("cannot attach x: EOPNOTSUPP (Operation not supported)", RejectedError, "does not support"),
        (
            "libbpf: extern (func ksym) 'scx_bpf_now': not found in kernel or module BTFs",
            RejectedError,
            "something of the kernel that this one does not have",
        ),
        (
            "error: unexpected argument '--no-such-option' found\nUsage: scx_rusty [OPTIONS]\nFor more, try '--help'.",
            NotAttachedError,
            "with exit code 1: unexpected argument '--no-such-option' found",
        ),
        (
            PANIC,
            NotAttachedError,
            "code 1: panicked at scx_utils-1.1/src/main.rs:42:9: index out of bounds: the len is 1",
        ),
        ("", NotAttachedError, "ended before it attached, with exit code 1, and said nothing"),
    ],
)
def test_words_of_a_scheduler_that_ended(log: str, error: type[SchedulerError], words: str) -> None:
    told = explain(see(log))
    assert type(told) is error
    assert words in told.message
    assert told.log == tuple(log.splitlines())


def test_slot_taken_says_by_whom() -> None:
    told = explain(see("EBUSY", occupant="x is attached, by process 7 (y)"))
    assert isinstance(told, SlotTakenError)
    assert "by process 7 (y)" in told.message


def test_kernels_own_words_say_why_it_was_ejected() -> None:
    ejection = Ejection("x", "runtime error", ("invalid CPU 99 from select_cpu",))
    told = explain(see("something else", ejection=ejection))
    assert isinstance(told, EjectedError)
    assert told.message.endswith("ejected it (error): runtime error: invalid CPU 99 from select_cpu")


def test_one_that_was_told_to_leave_was_not_ejected() -> None:
    told = explain(see("EXIT: unregistered from user space", ejection=Ejection("x", "unregistered from user space")))
    assert isinstance(told, NotAttachedError)


def test_unreadable_kernel_log_leaves_the_schedulers_own_words() -> None:
    told = explain(see(STALL, ejection=Unknown("not root")))
    assert type(told) is EjectedError
    assert "likely attached, and likely the kernel ejected it (stall)" in told.message
    assert "attached, and the kernel ejected it" in explain(see(STALL, came=True)).message


@pytest.mark.parametrize("ejection", [None, Ejection("other", "runnable task stall")])
def test_words_like_those_of_an_ejection_are_none_where_the_kernel_saw_no_attach(ejection: Ejection | None) -> None:
    kernel = KernelState(State.DISABLED, enable_seq=3)
    told = explain(see("INFO see also EXIT: codes in the manual", ejection=ejection, kernel=kernel))
    assert type(told) is NotAttachedError
    assert "ended before it attached, with exit code 1" in told.message


def test_wrong_arguments_are_not_anothers_ejection() -> None:
    told = explain(
        see("error: unexpected argument '--foo'", exit_code=2, ejection=Ejection("x", "runnable task stall"))
    )
    assert type(told) is NotAttachedError
    assert "its arguments may be wrong" in told.hint


def test_kernel_says_isolcpus_where_the_scheduler_says_only_einval() -> None:
    lines = ('sched_ext: Not compatible with "isolcpus=" domain isolation',)
    told = explain(see("cannot attach x: EINVAL (Invalid argument)", kernel_lines=lines))
    assert "isolcpus=" in told.message
    assert "boot without isolcpus=" in told.hint


def test_check_that_explains_a_bare_errno_is_named_with_its_fix() -> None:
    checks = (
        Check("kernel.slot", Outcome.ERROR, "beside the point", "no"),
        Check("kernel.preempt_rt", Outcome.ERROR, "PREEMPT_RT", "boot another"),
    )
    told = explain(see("cannot attach x: EOPNOTSUPP (Operation not supported)", checks=checks))
    assert "(kernel.preempt_rt: PREEMPT_RT)" in told.message
    assert told.hint == "boot another"


def test_one_that_still_runs_was_not_refused_whatever_it_prints() -> None:
    told = explain(see("warning: Operation not permitted, going on without", ended=False, exit_code=None))
    assert isinstance(told, NotAttachedError)
    assert "has not attached after 2 s; the kernel says disabled" in told.message


@pytest.mark.parametrize(
    ("code", "words"),
    [(137, "by signal SIGKILL"), (139, "by signal SIGSEGV"), (127, "was not found in the image"), (None, "not known")],
)
def test_exit_codes_are_put_in_words(code: int | None, words: str) -> None:
    assert words in explain(see(exit_code=code)).message


def test_end_of_one_that_was_attached_is_explained_by_its_own_words() -> None:
    assert isinstance(explain_end("scx_stall", (STALL,), 2), EjectedError)
    assert "ended after it had attached, with exit code 3" in explain_end("scx_mortal", (), 3).message


def stall(ops: str) -> Ejection:
    return Ejection(ops, "runnable task stall", ("sh[214] failed to run for 5.1s",))


def test_ejection_of_another_scheduler_is_not_this_ones() -> None:
    told = explain(see("error: unexpected argument '--x' found", exit_code=2, ejection=stall("old")))
    assert type(told) is NotAttachedError
    assert "ended before it attached, with exit code 2" in told.message


@pytest.mark.parametrize("fields", [{"ops": "mine"}, {"scheduler": "scx_mine"}, {"ops": "mine", "came": True}])
def test_ejection_by_its_own_name_is_a_fact(fields: dict[str, object]) -> None:
    told = explain(see("bye", ejection=stall("mine"), **fields))
    assert type(told) is EjectedError
    assert "attached, and the kernel ejected it (stall)" in told.message


def test_ejection_of_a_name_nobody_knows_is_likely_its_own() -> None:
    told = explain(see("bye", ejection=stall("fifo"), came=True))
    assert type(told) is EjectedError
    assert "and likely the kernel ejected it (stall)" in told.message


@pytest.mark.parametrize("came", [True, False])
def test_ejection_of_another_name_than_was_attached_is_anothers(came: bool) -> None:
    told = explain(see("bye", ejection=stall("old"), ops="mine", came=came))
    assert type(told) is NotAttachedError


HELP = """\
A scheduler. It does not run with isolcpus= or on PREEMPT_RT kernels, and needs CONFIG_FUNCTION_TRACER.
Usage: scx_x [OPTIONS]
  --retry  try again while the slot is taken (EBUSY), or when it could not be loaded (Failed to load)"""


@pytest.mark.parametrize("exit_code", [0, 2])
def test_words_of_a_help_text_are_no_verdict(exit_code: int) -> None:
    told = explain(see(HELP, exit_code=exit_code))
    assert type(told) is NotAttachedError


def test_word_counts_where_the_kernel_agrees() -> None:
    log = "cannot attach: isolcpus is set"
    assert "was refused: the kernel did not take its program" in explain(see(log)).message
    checks = (Check("kernel.isolcpus", Outcome.ERROR, "booted with isolcpus=1-3", "boot without it"),)
    assert "the kernel takes no scheduler while CPUs are isolated" in explain(see(log, checks=checks)).message


def test_words_of_one_that_ended_in_peace_are_no_verdict() -> None:
    assert type(explain(see("cannot attach x: EBUSY", exit_code=0))) is NotAttachedError
