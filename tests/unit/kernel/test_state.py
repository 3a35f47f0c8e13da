"""read_state on made-up roots; tests/e2e/test_kernel.py asks real kernels."""

from pathlib import Path

import pytest

from schedkit.kernel import state as module
from schedkit.kernel.files import read_text
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.unknown import Unknown
from tests.unit.kernel.roots import ATTACHED, FREE, SCHED_EXT, write_files, write_sched_ext


def test_free_kernel(tmp_path: Path) -> None:
    assert read_state(write_sched_ext(tmp_path, FREE)) == KernelState(
        State.DISABLED, ops=None, enable_seq=3, nr_rejected=0, hotplug_seq=1, switch_all=False
    )


def test_attached_scheduler_with_events_and_schedulers_below(tmp_path: Path) -> None:
    below = {
        "root/events": "SCX_EV_SELECT_CPU_FALLBACK 0\nSCX_EV_REFILL_SLICE_DFL 72",
        "root/sub/sub-41/ops": "inner",
        "root/sub/sub-41/sub/sub-42/ops": "innermost",
    }

    state = read_state(write_sched_ext(tmp_path, ATTACHED | below))

    assert (state.attached, state.ops, state.enable_seq, state.switch_all) == (True, "schedkit_fifo", 4, True)
    assert state.events == {"SCX_EV_SELECT_CPU_FALLBACK": 0, "SCX_EV_REFILL_SLICE_DFL": 72}
    assert state.sub_schedulers == ("inner", "innermost")


def test_kernel_without_sched_ext_is_unsupported(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)

    assert read_state(tmp_path) == KernelState(State.UNSUPPORTED)


def test_root_without_sysfs_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()

    assert read_state(tmp_path) == KernelState(Unknown(f"{tmp_path}/sys is not mounted"))


def test_folder_without_state_is_unknown(tmp_path: Path) -> None:
    (tmp_path / SCHED_EXT).mkdir(parents=True)

    assert read_state(tmp_path).state == Unknown(f"{tmp_path / SCHED_EXT}/state is missing")


@pytest.mark.parametrize("word", ["", "enable", "ENABLED", "unsupported", "enabled\nenabled"])
def test_word_that_no_kernel_says_is_unknown(tmp_path: Path, word: str) -> None:
    state = read_state(write_sched_ext(tmp_path, FREE | {"state": word}))

    assert state.state == state.attached == Unknown(f"{tmp_path / SCHED_EXT}/state reads {word!r}")


@pytest.mark.parametrize("word", ["", "many", "1.5", "٣", "9" * 30])
def test_torn_number_is_unknown_and_the_rest_is_told(tmp_path: Path, word: str) -> None:
    state = read_state(write_sched_ext(tmp_path, ATTACHED | {"nr_rejected": word}))

    assert isinstance(state.nr_rejected, Unknown)
    assert (state.state, state.ops, state.enable_seq) == (State.ENABLED, "schedkit_fifo", 4)


@pytest.mark.parametrize("name", ["", "x" * 200, "two\nlines"])
def test_torn_name_is_unknown(tmp_path: Path, name: str) -> None:
    assert isinstance(read_state(write_sched_ext(tmp_path, ATTACHED | {"root/ops": name})).ops, Unknown)


def test_torn_events_are_unknown(tmp_path: Path) -> None:
    state = read_state(write_sched_ext(tmp_path, ATTACHED | {"root/events": "SCX_EV_A 1\nSCX_EV_B"}))

    assert state.events == Unknown(f"{tmp_path / SCHED_EXT}/root/events reads ''")


def test_bytes_that_are_no_text_are_unknown(tmp_path: Path) -> None:
    write_sched_ext(tmp_path, ATTACHED)
    (tmp_path / SCHED_EXT / "root/ops").write_bytes(b"\xff\xfe")

    assert read_state(tmp_path).ops == Unknown(f"{tmp_path / SCHED_EXT}/root/ops: not text")


def test_file_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    write_sched_ext(tmp_path, ATTACHED)
    (tmp_path / SCHED_EXT / "enable_seq").unlink()
    (tmp_path / SCHED_EXT / "enable_seq").mkdir()

    assert read_state(tmp_path).enable_seq == Unknown(f"{tmp_path / SCHED_EXT}/enable_seq: Is a directory")


def test_detach_in_the_middle_of_reading_gives_what_is_so_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sched_ext(tmp_path, ATTACHED)

    def detach_before_the_name_is_read(path: Path) -> str | Unknown | None:
        if path.name == "ops" and path.exists():
            path.unlink()
            write_files(tmp_path / SCHED_EXT, {"state": "disabled"})
        return read_text(path)

    monkeypatch.setattr(module, "read_text", detach_before_the_name_is_read)

    assert (read_state(tmp_path).state, read_state(tmp_path).ops) == (State.DISABLED, None)


@pytest.mark.parametrize(
    "files", [FREE | {"state": "enabled"}, FREE | {"root/ops": "left"}], ids=["enabled", "disabled"]
)
def test_moments_that_stay_mixed_leave_the_name_unknown(tmp_path: Path, files: dict[str, str]) -> None:
    state = read_state(write_sched_ext(tmp_path, files))

    assert state.state == files["state"]
    assert isinstance(state.ops, Unknown)


@pytest.mark.parametrize("word", ["enabling", "disabling"])
@pytest.mark.parametrize("ops", [None, "schedkit_fifo"])
def test_passing_state_may_have_a_name_or_none(tmp_path: Path, word: str, ops: str | None) -> None:
    state = read_state(write_sched_ext(tmp_path, FREE | {"state": word} | ({"root/ops": ops} if ops else {})))

    assert (state.state, state.ops, state.attached) == (word, ops, False)
