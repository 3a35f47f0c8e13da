"""What podman 5.4 and docker 26.1 say when something goes wrong, word for word."""

from typing import Any

import pytest

from schedkit.errors import NoPermissionError, NoSpaceError, NotFoundError, SchedkitError, UnavailableError
from schedkit.runtimes.engine_answers import (
    parse_digests,
    parse_failure,
    parse_insecure,
    parse_message,
    parse_pull_failure,
    parse_repositories,
)

REFERENCE = "registry.example:5000/scx_fifo:v1"


@pytest.mark.parametrize(
    ("message", "kind", "hint"),
    [
        ("manifest unknown: manifest unknown", NotFoundError, ""),
        ("manifest for x@sha256:7c not found: manifest unknown: manifest unknown", NotFoundError, ""),
        ("unauthorized: authentication required", NoPermissionError, "login registry.example:5000"),
        ('Head "https://x/v2/": no basic auth credentials', NoPermissionError, "login registry.example:5000"),
        ("http: server gave HTTP response to HTTPS client", UnavailableError, "registry.example:5000"),
        (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            UnavailableError,
            "ca.crt",
        ),
        ("dial tcp 127.0.0.9:5001: connect: connection refused", UnavailableError, ""),
        ("dial tcp: lookup registry.example: no such host", UnavailableError, ""),
        ("write /var/lib/x: no space left on device", NoSpaceError, "prune"),
        ("something new", SchedkitError, ""),
    ],
)
@pytest.mark.parametrize("driver", ["podman", "docker"])
def test_failed_pull_tells_its_cause_apart(driver: str, message: str, kind: type[SchedkitError], hint: str) -> None:
    error = parse_pull_failure(driver, message, REFERENCE)

    assert type(error) is kind
    assert error.message == f"{driver} could not pull {REFERENCE}: {message}"
    assert hint in error.hint


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "No such container: 1234", NotFoundError),
        (500, 'no container with name or ID "1234" found: no such container', NotFoundError),
        (403, "forbidden", NoPermissionError),
        (500, "mkdir /var/lib/docker/overlay2/x: no space left on device", NoSpaceError),
        (503, "service unavailable", UnavailableError),
        (500, "server is shutting down", UnavailableError),
        (500, "crun: cannot stat `/var/run/scx`: No such file or directory", SchedkitError),
    ],
)
def test_refusal_becomes_the_error_it_is(status: int, message: str, kind: type[SchedkitError]) -> None:
    error = parse_failure("podman", status, message, "start container 1234")

    assert type(error) is kind
    assert error.message == f"podman could not start container 1234: {message}"


def test_refusal_without_json_is_told_as_it_is() -> None:
    assert parse_message(b'{"cause":"c","message":"m","response":404}\n') == "m"
    assert parse_message(b"404 page not found\n") == "404 page not found"
    assert parse_message(b"") == "it does not say why"
    assert parse_message(b"[" * 100_000) == "[" * 100_000


IMAGES: list[dict[str, Any]] = [
    {
        "RepoTags": ["localhost:5000/scx_fifo:v1"],
        "RepoDigests": ["localhost:5000/scx_fifo@sha256:1"],
        "Digest": "sha256:2",
    },
    {"RepoTags": None, "RepoDigests": ["ghcr.io/schedkit/scx_rusty@sha256:3", "ghcr.io/schedkit/scx_rusty@sha256:4"]},
    {"RepoTags": ["localhost:5000/scx_idle@sha256:5"], "RepoDigests": None},
    {},
]


def test_image_is_known_by_each_of_its_digests() -> None:
    assert parse_digests(IMAGES) == {"sha256:1", "sha256:2", "sha256:3", "sha256:4"}


def test_repository_is_a_name_without_tag_and_digest() -> None:
    assert parse_repositories(IMAGES) == {
        "localhost:5000/scx_fifo",
        "localhost:5000/scx_idle",
        "ghcr.io/schedkit/scx_rusty",
    }


@pytest.mark.parametrize(
    ("registry", "addresses", "insecure"),
    [
        ("localhost:5000", ["::1", "127.0.0.1"], True),
        ("mirror.test:5000", ["10.1.2.3"], True),
        ("mirror.test", ["10.1.2.3"], False),
        ("docker.io", ["127.0.0.1"], False),
        ("other.test", ["192.0.2.7"], True),
        ("other.test", ["2001:db8::1"], False),
        ("gone.test", [], False),
    ],
)
def test_docker_does_without_tls_where_its_configuration_says_so(
    registry: str, addresses: list[str], insecure: bool
) -> None:
    """As docker 26 tells it in /info."""
    told = {
        "RegistryConfig": {
            "InsecureRegistryCIDRs": ["127.0.0.0/8", "192.0.2.0/24"],
            "IndexConfigs": {
                "docker.io": {"Name": "docker.io", "Mirrors": [], "Secure": True, "Official": True},
                "mirror.test:5000": {"Name": "mirror.test:5000", "Mirrors": [], "Secure": False, "Official": False},
            },
            "Mirrors": None,
        }
    }
    assert parse_insecure(told, registry, addresses) == insecure
    assert not parse_insecure({"RegistryConfig": {}}, registry, addresses)
