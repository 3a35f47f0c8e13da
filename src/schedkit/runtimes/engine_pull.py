"""An engine pulls an image for itself: we say which, with which credentials, and listen."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from schedkit.images.oci import Content, Credentials, Source
from schedkit.runtimes.engine_answers import parse_message, parse_pull_failure
from schedkit.runtimes.engine_api import EngineApi
from schedkit.runtimes.model import Progress

_SILENCE_SECONDS = 300.0  # engines say nothing while they unpack a layer
_TOKEN_USER = "<token>"  # noqa: S105 — the user name that stands for an identity token, by docker's convention
_FETCHED = {"Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists"}


def pull(engine: EngineApi, content: Content, source: Source, progress: Progress) -> None:
    """Make the engine pull this platform's manifest from one source; progress counts the layers' bytes."""
    sizes = {_short(layer.digest): layer.size for layer in content.layers}
    total = sum(sizes.values())
    done = dict.fromkeys(sizes, 0)
    progress(0, total)
    for line in _stream(engine, content, source):
        if "error" in line:
            raise parse_pull_failure(engine.driver, str(line["error"]), _name(content, source))
        layer, status = str(line.get("id")), line.get("status")
        if layer not in sizes:
            continue
        if status in _FETCHED:
            done[layer] = sizes[layer]
        elif status == "Downloading":
            current = int((line.get("progressDetail") or {}).get("current") or 0)
            done[layer] = max(done[layer], min(current, sizes[layer]))
        progress(sum(done.values()), total)
    progress(total, total)


def _stream(engine: EngineApi, content: Content, source: Source) -> Iterator[dict[str, Any]]:
    action = f"pull {_name(content, source)}"
    target = "/images/create"
    query = {"fromImage": source.repository, "tag": content.manifest.digest}
    if source.insecure and engine.driver == "podman":
        # Docker goes by its own configuration only; podman can be told, at an address of its own.
        target = "/libpod/images/pull"
        query = {
            "reference": f"{source.repository}@{content.manifest.digest}",
            "tlsVerify": "false",
            "compatMode": "true",
        }
    headers = {"X-Registry-Auth": _encode(source.credentials, source.repository)} if source.credentials else {}
    with engine.open("POST", target, action, query=query, headers=headers, seconds=_SILENCE_SECONDS) as (
        response,
        _,
    ):
        if response.status != 200:
            raise parse_pull_failure(engine.driver, parse_message(response.read(64 * 1024)), _name(content, source))
        for line in response:
            if line.strip():
                told = engine.parse(line, action)
                if not isinstance(told, dict):
                    raise engine.invalid(action)
                yield told


def _name(content: Content, source: Source) -> str:
    """What the user asked for; of a mirror, what that is there."""
    return content.reference if source.repository == content.repository else source.repository


def _encode(credentials: Credentials, repository: str) -> str:
    registry = repository.partition("/")[0]
    if credentials.username == _TOKEN_USER:
        words = {"identitytoken": credentials.secret, "serveraddress": registry}
    else:
        words = {"username": credentials.username, "password": credentials.secret, "serveraddress": registry}
    return base64.urlsafe_b64encode(json.dumps(words).encode()).decode()


def _short(digest: str) -> str:
    """Shorten a digest as engines do for a layer."""
    return digest.partition(":")[2][:12]
