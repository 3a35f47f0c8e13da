"""Who the user is to a registry: podman's and docker's files, and their credential helpers."""

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from schedkit.images.oci import Credentials
from schedkit.images.reference import HUB, normalize_registry

IDENTITY = "<token>"  # the user name with which docker's helpers say that the secret is an identity token
HUB_HOST = "index.docker.io/"
HUB_SERVER = f"https://{HUB_HOST}v1/"  # what docker calls its hub in these files
HELPER_SECONDS = 15.0
LARGEST_FILE = 1 << 20
_HELPER = r"[A-Za-z0-9][A-Za-z0-9._-]*"


class Found(NamedTuple):
    """What the user's files say. `problems` kept us from asking some of them; they go into a refusal's hint."""

    credentials: Credentials | None = None
    problems: tuple[str, ...] = ()


class _Problem(Exception):
    """A file or helper that could not be asked."""


def find_credentials(registry: str, path: str, environ: Mapping[str, str] = os.environ) -> Found:
    """The first that podman's files and then docker's have for this repository; none is an answer too."""
    problems: list[str] = []
    for file in list_files(environ):
        try:
            if credentials := _look_into(file, registry, path, environ):
                return Found(credentials, tuple(problems))
        except _Problem as problem:
            problems.append(str(problem))
    return Found(None, tuple(problems))


def find_in_document(data: bytes, origin: str, registry: str, path: str) -> Found:
    """What a file of credentials that somebody else wrote has for a repository: it may name no program to run."""
    try:
        document = _parse(data, origin)
        return Found(_find_entry(_table(document, "auths", origin), origin, registry, path))
    except _Problem as problem:
        return Found(None, (str(problem),))


def list_files(environ: Mapping[str, str]) -> list[Path]:
    """Where credentials may lie, in podman's order."""
    home = Path(environ.get("HOME") or "/root")
    runtime = environ.get("XDG_RUNTIME_DIR")
    primary = Path(runtime) if runtime else Path(f"/run/containers/{os.getuid()}")
    named = environ.get("REGISTRY_AUTH_FILE")
    return [
        Path(named) if named else primary / "containers/auth.json" if runtime else primary / "auth.json",
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers/auth.json",
        Path(environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    ]


def _look_into(file: Path, registry: str, path: str, environ: Mapping[str, str]) -> Credentials | None:
    document = _read(file)
    if document is None:
        return None
    auths, helpers = _table(document, "auths", str(file)), _table(document, "credHelpers", str(file))
    for key in _keys(registry, path):
        if isinstance(helper := helpers.get(key), str) and (found := _ask_helper(helper, key, environ)):
            return found
    if found := _find_entry(auths, str(file), registry, path):
        return found
    store = document.get("credsStore")
    return _ask_helper(store, registry, environ) if isinstance(store, str) and store else None


def _find_entry(auths: dict[str, Any], origin: str, registry: str, path: str) -> Credentials | None:
    by_name = {_normal(key): entry for key, entry in reversed(auths.items())}
    for key in _keys(registry, path):
        if (entry := by_name.get(key)) and (found := _parse_entry(entry, origin, key)):
            return found
    return None


def _keys(registry: str, path: str) -> Iterator[str]:
    """registry/a/b, registry/a, registry: the closest first, as podman keeps one for each namespace."""
    parts = [registry, *path.split("/")]
    for length in range(len(parts), 0, -1):
        yield "/".join(parts[:length])


def _normal(key: str) -> str:
    """Docker's keys may be URLs of the registry's first API: https://host/v1/."""
    key, url = (key.partition("://")[2], True) if "://" in key else (key, False)
    key = key.rstrip("/")
    registry, slash, path = (re.sub(r"/v[12]$", "", key) if url or key.startswith(HUB_HOST) else key).partition("/")
    return f"{normalize_registry(registry)}{slash}{path}"


def _read(file: Path) -> dict[str, Any] | None:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _Problem(f"{file} cannot be read: {error.strerror}") from error
    return _parse(data, str(file))


def _parse(data: bytes, origin: str) -> dict[str, Any]:
    try:
        document = json.loads(data) if len(data) <= LARGEST_FILE else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _Problem(f"{origin} is not a file of credentials")
    return document


def _table(document: dict[str, Any], name: str, origin: str) -> dict[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise _Problem(f"{origin}: {name} is not an object")
    return table


def _parse_entry(entry: object, origin: str, key: str) -> Credentials | None:
    """`auth` is base64 of user:password; `identitytoken` stands instead of a password; empty means nothing."""
    if not isinstance(entry, dict):
        raise _Problem(f"{origin}: the entry of {key} is not an object")
    if isinstance(token := entry.get("identitytoken"), str) and token:
        return Credentials(IDENTITY, token)
    if isinstance(auth := entry.get("auth"), str) and auth:
        try:
            user, colon, secret = base64.b64decode(auth, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise _Problem(f"{origin}: the entry of {key} cannot be read") from error
        if not colon or not user:
            raise _Problem(f"{origin}: the entry of {key} cannot be read")
        return Credentials(user, secret.rstrip("\0"))
    user, secret = entry.get("username") or "", entry.get("password") or ""
    return Credentials(user, secret) if isinstance(user, str) and isinstance(secret, str) and user else None


def _ask_helper(name: str, key: str, environ: Mapping[str, str]) -> Credentials | None:
    """docker-credential-NAME get: the server goes in on stdin, user and secret come out on stdout."""
    import subprocess

    program = f"docker-credential-{name}"
    if not re.fullmatch(_HELPER, name):
        raise _Problem(f"{name!r} is not the name of a credential helper")
    server = HUB_SERVER if key == HUB else key
    try:
        done = subprocess.run(
            [program, "get"],
            input=server.encode(),
            capture_output=True,
            timeout=HELPER_SECONDS,
            check=False,
            env=dict(environ),
        )
    except subprocess.TimeoutExpired as error:
        raise _Problem(f"{program} did not respond within {HELPER_SECONDS:.0f} s") from error
    except OSError as error:
        raise _Problem(f"{program} cannot be run: {error.strerror}") from error
    if done.returncode:
        if b"credentials not found" in done.stdout + done.stderr:
            return None
        raise _Problem(f"{program} failed with exit code {done.returncode}")
    try:
        answer = json.loads(done.stdout)
        user, secret = answer["Username"], answer["Secret"]
    except (ValueError, RecursionError, TypeError, KeyError):
        # What it printed may hold the secret: it is neither chained nor shown.
        raise _Problem(f"{program} answers with something that is not a credential") from None
    if not isinstance(user, str) or not isinstance(secret, str):
        raise _Problem(f"{program} answers with something that is not a credential")
    return Credentials(user, secret) if user and secret else None
