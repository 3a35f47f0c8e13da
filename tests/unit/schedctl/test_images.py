"""What is kept here, and away with it; tests/integration/runtimes/test_images.py does it in real runtimes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedkit.errors import NoAnswerError, SchedkitError, UsageError
from schedkit.host.machine import Machine
from schedkit.host.units import ENABLED, FILES, Choice, render_unit
from schedkit.images.transport import Answer, Transport
from schedkit.runtimes.engine_answers import parse_images
from schedkit.runtimes.local_image import ImageInUseError, LocalImage, in_use
from schedkit.schedctl import session as sessions
from schedkit.schedctl.group import schedctl
from tests.documents import missing, undocumented
from tests.unit.schedctl.fakes import DIGEST, FakeRuntime, make_container
from tests.unit.schedctl.runner import make_runner

RUSTY, LAVD = "ghcr.io/schedkit/scx_rusty", "ghcr.io/schedkit/scx_lavd"
OTHER = "sha256:" + "e" * 64


@pytest.fixture
def images(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> FakeRuntime:
    """scx_rusty, of which a container is there, scx_lavd, a scheduler by its label, and somebody's database."""
    runtime.images = [
        LocalImage("podman", "sha256:" + "1" * 64, (f"{RUSTY}:latest", f"{RUSTY}@{DIGEST}"), 5_000_000, False),
        LocalImage("podman", "sha256:" + "2" * 64, (f"{LAVD}:1.0", f"{LAVD}@{OTHER}", "db/copy:1"), 6_000_000, False),
        LocalImage("podman", "sha256:" + "3" * 64, ("localhost/mine:v1",), None, True),
        LocalImage("podman", "sha256:" + "4" * 64, ("docker.io/library/postgres:17",), 400_000_000, False),
        LocalImage("podman", "sha256:" + "5" * 64, (), 9_000_000, False),
    ]
    container = make_container(labels={"org.schedkit.manifest": DIGEST})
    monkeypatch.setattr("schedkit.runtimes.view.Runtimes.fetch_containers", lambda self: [container])
    monkeypatch.setattr("schedkit.host.local_images.hold_lock", lambda _: open("/dev/null"))  # noqa: SIM115, PTH123
    return runtime


def call(*words: str) -> str:
    return make_runner().invoke(schedctl, list(words), catch_exceptions=False).stdout


def read(*words: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(call(*words, "-o", "json"))
    assert undocumented(words[0], document) == []
    assert missing(words[0], document) == []
    return document


def test_images_lists_schedulers_and_who_uses_them(images: FakeRuntime) -> None:
    lines = call("images").splitlines()
    assert lines[0].split() == ["IMAGE", "ID", "SIZE", "DRIVER", "USED", "BY"]
    assert [line.split()[0] for line in lines[1:]] == [f"{LAVD}:1.0", f"{RUSTY}:latest", "localhost/mine:v1"]
    assert lines[2].split()[-1] == "scx_rusty"
    assert len(read("images")["images"]) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [("prune",), ("rmi", "scx_lavd")])
def test_image_is_kept_whose_container_was_created_before_the_lock_was_free(
    images: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Another command held the lock: what it made is seen."""

    @contextmanager
    def wait(_: Path) -> Iterator[None]:
        made = make_container(name="scx_lavd", labels={"org.schedkit.manifest": OTHER})
        monkeypatch.setattr("schedkit.runtimes.view.Runtimes.fetch_containers", lambda self: [made])
        yield

    monkeypatch.setattr("schedkit.host.local_images.hold_lock", wait)
    make_runner().invoke(schedctl, list(words))
    assert f"{LAVD}:1.0" not in [name for one in images.removed for name in one.names]


@pytest.mark.parametrize("words", [("prune",), ("rmi", "scx_lavd")])
def test_no_network_is_waited_for_under_the_lock(
    images: FakeRuntime, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    is_held, asked = False, []

    @contextmanager
    def hold(_: Path) -> Iterator[None]:
        nonlocal is_held
        is_held = True
        yield
        is_held = False

    def fetch(_: Transport, url: str, **__: object) -> Answer:
        asked.append((url, is_held))
        raise NoAnswerError("no response")

    monkeypatch.setattr("schedkit.host.local_images.hold_lock", hold)
    monkeypatch.setattr(Transport, "fetch", fetch)
    call("--catalog", "https://catalog.lan/c.json", *words)
    assert asked == [("https://catalog.lan/c.json", False)]


def test_ids_alone_are_one_a_line(images: FakeRuntime) -> None:
    assert call("images", "-q").splitlines() == [f"sha256:{digit * 64}" for digit in "213"]
    for words in (["-o", "json"], ["--format", "{{.id}}"]):
        with pytest.raises(UsageError, match="--quiet cannot be used with"):
            call("images", "-q", *words)


def test_prune_removes_what_nothing_uses_and_only_names_that_are_ours(images: FakeRuntime) -> None:
    assert read("prune", "--dry-run")["bytes"] == 6_000_000
    assert images.removed == []
    assert call("prune").splitlines()[-1] == "6.0 MB in all"
    assert [one.names for one in images.removed] == [(f"{LAVD}:1.0", f"{LAVD}@{OTHER}"), ("localhost/mine:v1",)]


@pytest.mark.parametrize("is_torn", [False, True])
def test_prune_keeps_what_is_started_at_boot(
    images: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_torn: bool
) -> None:
    choice = Choice("scx_lavd", f"{LAVD}:1.0@{OTHER}", OTHER, "podman", "/run/podman.sock", "me", "on-failure:5")
    unit = tmp_path / FILES[ENABLED]
    unit.parent.mkdir(parents=True)
    unit.write_text("torn" if is_torn else render_unit(choice, ["schedctl"], ENABLED))
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(root=tmp_path))
    assert f"{LAVD}:1.0" in call("images")
    call("prune")
    assert [one.names for one in images.removed] == ([] if is_torn else [("localhost/mine:v1",)])


OLD, INDEX = "sha256:" + "0" * 64, "sha256:" + "f" * 64


def keep_versions(images: FakeRuntime, monkeypatch: pytest.MonkeyPatch, root: Path, choice: Choice) -> list[str]:
    """What `prune` leaves of two versions of scx_lavd, and of the newer one in docker, where a choice is enabled."""
    images.images = [
        LocalImage("podman", "sha256:" + "1" * 64, (f"{LAVD}@{OLD}",), 1, False),
        LocalImage("podman", "sha256:" + "2" * 64, (f"{LAVD}:1.0", f"{LAVD}@{OTHER}"), 1, False),
        LocalImage("docker", "sha256:" + "2" * 64, (f"{LAVD}@{OTHER}",), 1, False),
    ]
    unit = root / FILES[ENABLED]
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text(render_unit(choice, ["schedctl"], ENABLED))
    monkeypatch.setattr(sessions, "Machine", lambda: Machine(root=root))
    unused = {(one["driver"], one["id"]) for one in read("prune", "--dry-run")["removed"]}  # type: ignore[attr-defined]
    return [f"{one.driver} {one.names[0]}" for one in images.images if (one.driver, one.id) not in unused]


def test_prune_removes_old_versions_of_the_enabled_scheduler_and_those_of_other_runtimes(
    images: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choice = Choice("scx_lavd", f"{LAVD}:1.0@{OTHER}", OTHER, "podman", "/run/podman.sock", "me", "on-failure:5")
    choice = choice._replace(manifest=OTHER)
    assert keep_versions(images, monkeypatch, tmp_path, choice) == [f"podman {LAVD}:1.0"]
    # Of an index, it is the manifest that tells.
    choice = choice._replace(image=f"{LAVD}:1.0@{INDEX}", digest=INDEX)
    assert keep_versions(images, monkeypatch, tmp_path, choice) == [f"podman {LAVD}:1.0"]
    call("rmi", f"{LAVD}@{OLD}")
    assert [one.names for one in images.removed] == [(f"{LAVD}@{OLD}",)]
    with pytest.raises(ImageInUseError, match=r"by schedkit\.service"):
        call("rmi", f"{LAVD}:1.0")


def test_prune_keeps_all_versions_where_the_enabled_one_is_not_known(
    images: FakeRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choice = Choice("scx_lavd", f"{LAVD}:1.0@{INDEX}", INDEX, "podman", "/run/podman.sock", "me", "on-failure:5")
    every = [f"podman {LAVD}@{OLD}", f"podman {LAVD}:1.0"]
    assert keep_versions(images, monkeypatch, tmp_path, choice) == every
    # A unit of before names no manifest, though some image may be known by its index.
    choice = choice._replace(image=f"{LAVD}:1.0@{OLD}", digest=OLD)
    assert keep_versions(images, monkeypatch, tmp_path, choice) == every


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("lavd", (f"{LAVD}:1.0", f"{LAVD}@{OTHER}")),
        ("scx_lavd:1.0", (f"{LAVD}:1.0",)),
        (f"{LAVD}:1.0", (f"{LAVD}:1.0",)),
        (f"{LAVD}@{OTHER}", (f"{LAVD}@{OTHER}",)),
        (LAVD, (f"{LAVD}:1.0", f"{LAVD}@{OTHER}")),
        ("222222222222", (f"{LAVD}:1.0", f"{LAVD}@{OTHER}")),
    ],
)
def test_rmi_takes_a_name_an_image_and_an_id(images: FakeRuntime, word: str, names: tuple[str, ...]) -> None:
    call("rmi", word)
    assert [one.names for one in images.removed] == [names]


@pytest.mark.parametrize("word", ["postgres", "docker.io/library/postgres:17", "444444444444", "222", "scx_flash"])
def test_rmi_leaves_what_is_not_meant_or_not_a_schedulers(images: FakeRuntime, word: str) -> None:
    done = make_runner().invoke(schedctl, ["rmi", word])
    assert isinstance(done.exception, SchedkitError)
    assert images.removed == []


def test_one_in_use_is_told_and_the_others_go(images: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(image: LocalImage) -> None:
        if "scx_rusty" in image.names[0]:
            raise in_use("podman", image.names[0], "the container scx_rusty")
        images.removed.append(image)

    monkeypatch.setattr(images, "remove_image", remove)
    done = make_runner().invoke(schedctl, ["rmi", "rusty", "lavd"])
    assert isinstance(done.exception, ImageInUseError)
    assert len(images.removed) == 1
    assert "scx_lavd:1.0 is removed" in done.stdout


def test_what_engines_say_of_images() -> None:
    listed = [
        {
            "Id": "a" * 64,
            "RepoTags": ["<none>:<none>"],
            "RepoDigests": ["x/y@sha256:1"],
            "Size": 7,
            "Labels": {"org.schedkit.scheduler.kernel.min-version": "6.12"},
        },
        {"Id": "sha256:" + "b" * 64, "RepoTags": ["x/y:1"], "RepoDigests": ["x/y@sha256:1"], "Size": 8, "Labels": None},
    ]
    assert parse_images("docker", listed) == [
        LocalImage("docker", "sha256:" + "a" * 64, ("x/y@sha256:1",), 7, True),
        LocalImage("docker", "sha256:" + "b" * 64, ("x/y:1", "x/y@sha256:1"), 8, False),
    ]


def test_rmi_tells_what_it_would_remove_and_what_it_could_not(images: FakeRuntime) -> None:
    document = read("rmi", "--dry-run", "lavd")
    assert (document["dry_run"], len(document["removed"])) == (True, 1)  # type: ignore[arg-type]
    assert call("rmi", "--dry-run", "lavd") == f"{LAVD}:1.0 would be removed from podman\n"
    with pytest.raises(ImageInUseError):
        call("rmi", "--dry-run", "scx_rusty")
    assert images.removed == []
