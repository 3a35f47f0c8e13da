"""Logins come from where podman and docker keep them, and nowhere do they show."""

import base64
import json
import os
from pathlib import Path

import pytest

from schedkit.images import credentials
from schedkit.images.credentials import IDENTITY, Found, find_credentials, find_in_document
from schedkit.images.oci import Credentials


def auth(user: str, secret: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{secret}".encode()).decode()}


class Home:
    """A user's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            "HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PATH": os.environ["PATH"],
        }

    def write(self, path: str, document: object) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return file

    def helper(self, name: str, script: str) -> None:
        file = self.write(f"bin/docker-credential-{name}", f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        self.environ["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"

    def find(self, registry: str = "ghcr.io", path: str = "schedkit/scx_rusty") -> Found:
        return find_credentials(registry, path, self.environ)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_without_files_there_is_no_login_and_no_problem(home: Home) -> None:
    assert home.find() == Found(None)


def test_podmans_file_comes_before_its_older_place_and_dockers(home: Home) -> None:
    home.write("home/.docker/config.json", {"auths": {"ghcr.io": auth("docker", "c")}})
    assert home.find().credentials == Credentials("docker", "c")
    home.write("home/.config/containers/auth.json", {"auths": {"ghcr.io": auth("config", "b")}})
    assert home.find().credentials == Credentials("config", "b")
    home.write("run/containers/auth.json", {"auths": {"ghcr.io": auth("runtime", "a")}})
    assert home.find().credentials == Credentials("runtime", "a")


def test_files_that_variables_name_count(home: Home) -> None:
    home.write("run/containers/auth.json", {"auths": {"ghcr.io": auth("runtime", "a")}})
    home.write("d/config.json", {"auths": {"ghcr.io": auth("docker", "c")}})
    home.environ["DOCKER_CONFIG"] = str(home.folder / "d")
    home.environ["REGISTRY_AUTH_FILE"] = str(home.write("named.json", {}))
    assert home.find().credentials == Credentials("docker", "c")
    home.write("named.json", {"auths": {"ghcr.io": auth("named", "n")}})
    assert home.find().credentials == Credentials("named", "n")


def test_the_closest_namespace_counts(home: Home) -> None:
    entries = {"ghcr.io": auth("all", "1"), "ghcr.io/schedkit": auth("team", "2"), "ghcr.io/schedkit/x": auth("x", "3")}
    home.write("run/containers/auth.json", {"auths": entries})
    assert home.find().credentials == Credentials("team", "2")
    assert home.find(path="schedkit/x").credentials == Credentials("x", "3")
    assert home.find(path="schedkitten/x").credentials == Credentials("all", "1")
    assert home.find("example.com").credentials is None
    assert home.find("ghcr.io:5000").credentials is None


@pytest.mark.parametrize("key", ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "https://docker.io"])
def test_the_hub_has_many_names(home: Home, key: str) -> None:
    home.write("home/.docker/config.json", {"auths": {key: auth("me", "s")}})
    assert home.find("docker.io", "library/x").credentials == Credentials("me", "s")


@pytest.mark.parametrize(
    "key",
    [
        "index.docker.io.corp.example",
        "https://index.docker.io.corp.example/v1/",
        "index.docker.iox",
        "corp.example/index.docker.io",
    ],
)
def test_a_name_that_begins_like_the_hubs_is_not_the_hub(home: Home, key: str) -> None:
    home.write("home/.docker/config.json", {"auths": {key: auth("me", "s")}})
    assert home.find("docker.io", "library/x").credentials is None


@pytest.mark.parametrize(
    "key", ["https://host.example:5000", "http://host.example:5000/v2/", "https://host.example:5000/v1/"]
)
def test_keys_may_be_urls(home: Home, key: str) -> None:
    home.write("home/.docker/config.json", {"auths": {key: auth("me", "s:with:colons")}})
    assert home.find("host.example:5000").credentials == Credentials("me", "s:with:colons")


def test_an_identity_token_is_one(home: Home) -> None:
    home.write("home/.docker/config.json", {"auths": {"ghcr.io": auth("me", "") | {"identitytoken": "t"}}})
    assert home.find().credentials == Credentials(IDENTITY, "t")


def test_a_helper_is_asked_on_stdin_for_its_registry(home: Home) -> None:
    home.helper("lab", 'read server; [ "$#:$1" = 1:get ] && printf \'{"Username":"me","Secret":"%s"}\' "$server"')
    home.write("home/.docker/config.json", {"credHelpers": {"ghcr.io": "lab", "docker.io": "lab"}})
    assert home.find().credentials == Credentials("me", "ghcr.io")
    assert home.find("docker.io", "a/b").credentials == Credentials("me", "https://index.docker.io/v1/")
    assert home.find("example.com").credentials is None


def test_the_store_is_asked_for_all_others(home: Home) -> None:
    home.helper("store", 'echo \'{"Username":"<token>","Secret":"t"}\'')
    home.write("home/.docker/config.json", {"credsStore": "store", "auths": {"ghcr.io": {}, "a.io": auth("a", "b")}})
    assert home.find().credentials == Credentials(IDENTITY, "t")
    assert home.find("a.io").credentials == Credentials("a", "b")


def test_a_helper_that_has_nothing_is_no_problem(home: Home) -> None:
    home.helper("lab", "echo credentials not found in native keychain; exit 1")
    home.write("home/.docker/config.json", {"credsStore": "lab"})
    assert home.find() == Found(None)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo hunter2 >&2; exit 3", "exit code 3"),
        ("echo hunter2", "not a credential"),
        ('echo \'{"Username": "me", "Secret": ["hunter2"]}\'', "not a credential"),
        ("echo '[\"hunter2\"]'", "not a credential"),
    ],
)
def test_a_broken_helper_is_a_problem_that_tells_no_secret(home: Home, script: str, problem: str) -> None:
    home.helper("lab", script)
    home.write("home/.docker/config.json", {"credsStore": "lab"})
    found = home.find()
    assert found.credentials is None
    assert problem in found.problems[0]
    assert "docker-credential-lab" in found.problems[0]
    assert "hunter2" not in found.problems[0]


def test_a_helper_that_hangs_is_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "HELPER_SECONDS", 0.1)
    home.helper("lab", "exec sleep 600")
    home.write("home/.docker/config.json", {"credsStore": "lab"})
    assert "did not respond" in home.find().problems[0]


@pytest.mark.parametrize("name", ["../../bin/sh", "missing", "a b", "-x"])
def test_a_helper_that_is_none_is_a_problem(home: Home, name: str) -> None:
    home.write("home/.docker/config.json", {"credsStore": name})
    assert home.find().credentials is None
    assert name in home.find().problems[0]


@pytest.mark.parametrize(
    "document",
    [
        "{torn",
        "[]",
        "[" * 100_000,
        {"auths": []},
        {"auths": {"ghcr.io": "x"}},
        {"auths": {"ghcr.io": {"auth": "!!"}}},
        {"auths": {"ghcr.io": {"auth": "bm9jb2xvbg=="}}},
        " " * (1 << 20) + "{}",
    ],
)
def test_a_file_that_cannot_be_read_is_a_problem_and_the_next_is_asked(home: Home, document: object) -> None:
    file = home.write("run/containers/auth.json", document)
    home.write("home/.docker/config.json", {"auths": {"ghcr.io": auth("docker", "c")}})
    found = home.find()
    assert found.credentials == Credentials("docker", "c")
    assert str(file) in found.problems[0]


def test_a_secret_shows_in_no_representation(home: Home) -> None:
    home.write("home/.docker/config.json", {"auths": {"ghcr.io": auth("me", "hunter2")}})
    assert "hunter2" not in repr(home.find())


def test_somebody_elses_document_has_logins_and_runs_no_program(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = home.folder / "ran"
    home.helper("evil", f"touch {ran}")
    monkeypatch.setenv("PATH", home.environ["PATH"])
    helpers = {"credsStore": "evil", "credHelpers": {"ghcr.io": "evil"}}
    document = json.dumps(helpers | {"auths": {"ghcr.io": auth("tenant", "a")}}).encode()
    assert find_in_document(document, "it", "ghcr.io", "schedkit/scx_rusty") == Found(Credentials("tenant", "a"))
    assert find_in_document(document, "it", "example.com", "scx_rusty") == Found(None)
    assert find_in_document(json.dumps(helpers).encode(), "it", "ghcr.io", "x") == Found(None)
    assert find_in_document(b"[]", "it", "ghcr.io", "x") == Found(None, ("it is not a file of credentials",))
    assert not ran.exists()
