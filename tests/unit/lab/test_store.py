"""The store with small artefacts of real files."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import BuildError
from lab.progress import Progress
from lab.store import Artefact, Build, Store
from lab.waiting import wait_for
from schedkit.errors import NoSpaceError


def write_one(build: Build) -> None:
    (build.out / "file").write_text("content")


def make_store(root: Path, *everything: Artefact) -> tuple[Store, io.StringIO]:
    said = io.StringIO()
    return Store(root, everything, Progress(said)), said


def test_artefact_is_built_once_and_again_when_an_input_changes(tmp_path: Path) -> None:
    built: list[str] = []

    def note(build: Build) -> None:
        built.append(build.artefact.inputs[0])

    first, second = Artefact("thing", ("one",), note), Artefact("thing", ("two",), note)
    store, said = make_store(tmp_path, first)
    store.ensure(first)
    store.ensure(first)
    assert built == ["one"]
    store.ensure(second)
    assert built == ["one", "two"]
    assert store.path(first) != store.path(second)
    assert "lab: will build 1 in about 5 s: thing\n" in said.getvalue()
    assert "lab: [1/1] thing: 0.0 s\n" in said.getvalue()
    assert store.seconds_last_time(first) is not None


def test_two_are_built_at_a_time_and_what_an_artefact_needs_before_it(tmp_path: Path) -> None:
    ended: list[str] = []

    def meet(build: Build) -> None:
        (tmp_path / build.artefact.name).touch()
        wait_for("the other", lambda: (tmp_path / "left").exists() and (tmp_path / "right").exists(), 30)
        ended.append(build.artefact.name)

    left, right = (Artefact(name, (), meet) for name in ("left", "right"))
    last = Artefact("last", (), lambda build: ended.append(build.artefact.name), needs=(left, right))
    store, _ = make_store(tmp_path / "lab", last, left, right)
    store.ensure(last)
    assert sorted(ended[:2]) == ["left", "right"]
    assert ended[2] == "last"


def test_one_is_built_at_a_time_in_a_lane(tmp_path: Path) -> None:
    under_way: set[str] = set()

    def build(build: Build) -> None:
        under_way.add(build.artefact.name)
        build.run(["sleep", "0.05"])
        assert not {"one", "two"} <= under_way
        under_way.remove(build.artefact.name)

    things = [Artefact(name, (), build, lane=lane) for name, lane in (("one", "go"), ("two", "go"), ("other", ""))]
    store, _ = make_store(tmp_path, *things)
    store.ensure(*things)


def test_build_that_fails_ends_the_other_with_its_processes(tmp_path: Path) -> None:
    process = tmp_path / "process"

    def fail(build: Build) -> None:
        wait_for("the other", process.exists, 30)
        build.run(["false"])

    def run_long(build: Build) -> None:
        build.run(["sh", "-c", f"echo $$ >{process}.new; mv {process}.new {process}; exec sleep 600"])

    broken, long = Artefact("broken", (), fail), Artefact("long", (), run_long)
    store, _ = make_store(tmp_path / "lab", broken, long)
    with pytest.raises(BuildError, match="building broken failed"):
        store.ensure(broken, long)
    assert not Path(f"/proc/{process.read_text().strip()}").exists()
    assert not store.has(long)

    fine = Artefact("fine", (), write_one)
    store.ensure(fine)
    assert store.has(fine), "the store can still build"


def test_key_follows_what_an_artefact_needs() -> None:
    one, two = (Artefact("need", (text,), write_one) for text in ("one", "two"))
    assert Artefact("thing", (), write_one, needs=(one,)).key != Artefact("thing", (), write_one, needs=(two,)).key


def test_failed_build_is_never_used_and_goes_on_where_it_was(tmp_path: Path) -> None:
    def stumble(build: Build) -> None:
        (build.out / "half").touch()
        if not (build.work / "progress").exists():
            (build.work / "progress").touch()
            build.run(["sh", "-c", "echo the disk caught fire; exit 3"])
        assert not (build.out / "half-of-last-time").exists()

    thing = Artefact("thing", (), stumble)
    store, _ = make_store(tmp_path, thing)
    with pytest.raises(BuildError, match="exit status 3") as caught:
        store.ensure(thing)
    assert "the disk caught fire" in caught.value.message
    assert not store.has(thing)
    store.ensure(thing)
    assert store.has(thing)
    assert list(tmp_path.glob("work/*")) == []


def test_interrupted_build_leaves_no_artefact_and_no_process(tmp_path: Path) -> None:
    def interrupted(build: Build) -> None:
        (build.out / "half").touch()
        raise KeyboardInterrupt

    thing = Artefact("thing", (), interrupted)
    store, _ = make_store(tmp_path, thing)
    with pytest.raises(KeyboardInterrupt):
        store.ensure(thing)
    assert not store.has(thing)


def test_intermediates_go_once_everything_made_from_them_is_there(tmp_path: Path) -> None:
    tools = Artefact("tools", (), write_one, intermediate=True)
    one, two = (Artefact(name, (), write_one, needs=(tools,)) for name in ("one", "two"))
    store, _ = make_store(tmp_path, tools, one, two)
    store.ensure(one)
    assert store.has(tools)
    store.ensure(two)
    assert not store.has(tools)
    assert not store.downloads.exists()
    store.ensure(one, two)
    assert not store.has(tools), "finished artefacts need their intermediates no more"


def test_too_little_disk_is_said_before_anything_is_built(tmp_path: Path) -> None:
    huge = Artefact("huge", (), write_one, peak_mb=shutil.disk_usage(tmp_path).free // 1_000_000 + 1000)
    store, _ = make_store(tmp_path, huge)
    with pytest.raises(NoSpaceError, match="is free") as caught:
        store.ensure(huge)
    assert "SCHEDKIT_LAB_DIR" in caught.value.hint
    assert not store.has(huge)


def test_prune_keeps_what_is_current(tmp_path: Path) -> None:
    old, new = (Artefact("thing", (text,), write_one) for text in ("old", "new"))
    store, _ = make_store(tmp_path, new)
    store.ensure(old, new)
    store.prune(all_=False)
    assert not store.has(old)
    assert store.has(new)
    store.prune(all_=True)
    assert not store.has(new)


def test_torn_times_file_only_costs_the_past_times(tmp_path: Path) -> None:
    thing = Artefact("thing", (), write_one)
    store, _ = make_store(tmp_path, thing)
    (tmp_path / "times.json").write_text('{"thing": ')
    assert store.seconds_last_time(thing) is None
    store.ensure(thing)
    assert store.seconds_last_time(thing) is not None


KILLED_BUILD = """
import sys
from pathlib import Path
from lab.progress import Progress
from lab.store import Artefact, Store

def build(build):
    build.run(["sh", "-c", "echo $$ >" + str(build.work / "pid") + "; exec sleep 600"])

thing = Artefact("thing", (), build)
Store(Path(sys.argv[1]), [thing], Progress()).ensure(thing)
"""


def test_killed_build_leaves_nothing_that_goes_on_writing(tmp_path: Path) -> None:
    builder = subprocess.Popen([sys.executable, "-c", KILLED_BUILD, tmp_path], stderr=subprocess.DEVNULL)

    def read_pid() -> str:
        return "".join(path.read_text() for path in tmp_path.glob("work/*/pid")).strip()

    pid = wait_for("the build to begin", read_pid, 20)
    builder.kill()
    builder.wait()

    def is_gone() -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"

    wait_for("its command to end with it", is_gone, 20)
