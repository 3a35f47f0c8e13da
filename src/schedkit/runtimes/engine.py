"""Podman and docker: both serve Docker's HTTP API, so one driver speaks to either."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from schedkit.errors import BadDataError, NoAnswerError, NotFoundError, SchedkitError
from schedkit.images.oci import Content, Source
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.engine_answers import (
    is_marked,
    parse_container,
    parse_digests,
    parse_failure,
    parse_image_id,
    parse_images,
    parse_insecure,
    parse_message,
    parse_repositories,
)
from schedkit.runtimes.engine_api import EngineApi
from schedkit.runtimes.labels import PROVIDER
from schedkit.runtimes.local_image import LocalImage, in_use
from schedkit.runtimes.model import LOOK_SECONDS, SCX_FOLDER, ContainerSpec, Progress, name_taken, still_running
from schedkit.runtimes.unix_http import CHANGE_SECONDS, READ_SECONDS, EngineAnswer, EngineSocket

_PIECE = 64 * 1024


class Engine:
    """Fulfils runtimes.model.Runtime for podman and docker."""

    def __init__(self, driver: str, socket: str, *, api: str = "", scx_folder: Path = Path(SCX_FOLDER)) -> None:
        """`api` is what the engine's ping told, if somebody has asked already."""
        self._api = EngineApi(EngineSocket(driver, socket), api)
        self._scx_folder = scx_folder

    @property
    def driver(self) -> str:
        """Podman or docker."""
        return self._api.driver

    @property
    def socket(self) -> str:
        """The path it is spoken to at."""
        return self._api.path

    def fetch_version(self) -> str:
        """Return the engine's version."""
        server = self._api.ping().headers.get("server", "")  # Docker/26.1.5 (linux)
        return server.partition("/")[2].partition(" ")[0] or "of unknown version"

    def fetch_containers(self) -> list[Container]:
        """All that carry the provider's label, oldest first."""
        name, value = PROVIDER
        action = "list containers"
        query = {"all": "1", "filters": f'{{"label":["{name}={value}"]}}'}
        deadline = time.monotonic() + LOOK_SECONDS
        listed = self._api.fetch_json("/containers/json", action, query=query, seconds=LOOK_SECONDS)
        try:
            ids = [str(item["Id"]) for item in listed]
        except (KeyError, TypeError) as error:
            raise self._api.invalid(action) from error
        containers = []
        for id in ids:
            try:
                told = self._inspect(id, f"inspect container {id[:12]}", max(0.001, deadline - time.monotonic()))
                if self._is_marked(told) or not self._comes_from_image(told, deadline):
                    containers.append(self._parse_aged(told))
            except NotFoundError:
                continue  # it went since the list was made
        # The list tells whole seconds and podman's order within one is any; an inspection tells the exact time.
        return [container for _, container in sorted(containers, key=lambda aged: aged[0])]

    def fetch_container(self, id: str) -> Container:
        """One by its id."""
        return self._parse_aged(self._inspect(id, f"inspect container {id[:12]}"))[1]

    def fetch_digests(self) -> frozenset[str]:
        """Return the digests of all local images: podman's of manifest and index, docker's of what was asked for."""
        return self._fetch_images(parse_digests)

    def fetch_repositories(self) -> frozenset[str]:
        """Return the repositories that have at least one local image."""
        return self._fetch_images(parse_repositories)

    def fetch_images(self) -> list[LocalImage]:
        """All images that are here, whoever pulled them."""
        action = "list images"
        try:
            return parse_images(self.driver, self._api.fetch_json("/images/json", action))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._api.invalid(action) from error

    def remove_image(self, image: LocalImage) -> None:
        """Name by name, as engines want it; with the last one it is gone. One without a name goes by its id."""
        for name in image.names or (image.id,):
            action = f"remove image {name}"
            answer = self._api.call("DELETE", f"/images/{name}", action, seconds=CHANGE_SECONDS)
            if answer.status == 409:
                raise in_use(self.driver, name, parse_message(answer.body))
            if answer.status not in (200, 404):
                raise self._api.failure(answer, action)

    def has_image(self, content: Content) -> bool:
        """Whether the manifest is here, and by the engine's own image id it is ours."""
        return self._find_image(content) is not None

    def may_be_plain(self, registry: str) -> bool:
        """Docker goes by its own configuration; podman does as it is told."""
        if self.driver != "docker":
            return True
        from schedkit.images.settings import find_addresses

        action = "list its insecure registries"
        try:
            return parse_insecure(self._api.fetch_json("/info", action), registry, find_addresses(registry))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self._api.invalid(action) from error

    def pull(self, content: Content, progress: Progress) -> None:
        """Pull the manifest by its digest; closing the connection, as an interrupt does, makes the engine cancel it."""
        if self.has_image(content):
            return
        *mirrors, origin = content.sources
        failures: list[str] = []
        for mirror in mirrors:
            try:
                self._pull_from(mirror, content, progress)
            except SchedkitError as error:
                failures.append(f"from its mirror: {error.message}")
            else:
                return
        try:
            self._pull_from(origin, content, progress)
        except SchedkitError as error:
            error.hint = "; ".join(words for words in (error.hint, *failures) if words)
            raise

    def create(self, content: Content, spec: ContainerSpec) -> str:
        """Make a container of the manifest by its digest, so that what runs is what was verified."""
        image = self._find_image(content)
        if image is None:
            raise NotFoundError(f"{self.driver} does not have {content.reference}", hint="pull it first")
        from schedkit.runtimes.engine_spec import describe_container

        action = f"create container {spec.name}"
        body = describe_container(self.driver, image, content, spec, self._scx_folder)
        answer = self._api.call(
            "POST", "/containers/create", action, query={"name": spec.name}, body=body, seconds=CHANGE_SECONDS
        )
        if answer.status == 201:
            try:
                return str(self._api.parse(answer.body, action)["Id"])
            except (KeyError, TypeError) as error:
                raise self._api.invalid(action) from error
        failure = self._api.failure(answer, action)
        if "already in use" in failure.message:  # docker says it with 409, podman with 500
            raise name_taken(self.driver, spec.name)
        raise failure

    def start(self, id: str) -> None:
        """Start it; one that runs already is fine."""
        # Engines make it when they create a container; after a boot it is gone, and podman does not make it again.
        with suppress(OSError):
            self._scx_folder.mkdir(parents=True, exist_ok=True)
        action = f"start container {id[:12]}"
        self._api.change("POST", f"/containers/{id}/start", action, fine=(204, 304))

    def signal(self, id: str, number: int) -> None:
        """Send a signal; 409 says that nothing runs in it."""
        action = f"send signal {number} to container {id[:12]}"
        self._api.change("POST", f"/containers/{id}/kill", action, query={"signal": str(number)}, fine=(204, 409))

    def wait(self, id: str, timeout: float) -> int | None:
        """Its exit code as soon as it ended. At the timeout the engine is asked once more: silence is not `it runs`."""
        action = f"wait for container {id[:12]}"
        code = self._await_end(id, timeout, action)
        # An answer of 0 is also what a container gets that never ran.
        container = self.fetch_container(id) if not code else None
        if container is None:
            return code
        if container.state == ContainerState.CREATED:
            raise SchedkitError(f"container {container.name} was never started, so there is no end to wait for")
        return container.exit_code if code is None else code

    def rename(self, id: str, name: str) -> None:
        """Give it another name."""
        action = f"rename container {id[:12]}"
        answer = self._api.call(
            "POST", f"/containers/{id}/rename", action, query={"name": name}, seconds=CHANGE_SECONDS
        )
        if answer.status != 204:
            failure = self._api.failure(answer, action)
            # podman answers in the words of its database, where nothing else could fail to be unique.
            taken = any(words in failure.message for words in ("already in use", "UNIQUE constraint failed"))
            raise name_taken(self.driver, name) if taken else failure

    def remove(self, id: str) -> None:
        """Remove an ended container with its log and its anonymous volumes; one that is gone is fine."""
        action = f"remove container {id[:12]}"
        answer = self._api.call("DELETE", f"/containers/{id}", action, query={"v": "1"}, seconds=CHANGE_SECONDS)
        if answer.status in (204, 404):
            return
        if self.fetch_container(id).state in (ContainerState.RUNNING, ContainerState.PAUSED):
            raise still_running(self.driver, id)
        raise self._api.failure(answer, action)

    def stream_logs(
        self,
        id: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        """Its output, both streams in the order in which they came."""
        action = f"read the logs of container {id[:12]}"
        told = self._inspect(id, action)
        framed = not told.get("Config", {}).get("Tty")
        query = {"stdout": "1", "stderr": "1", "follow": str(int(follow)), "tail": "all" if tail is None else str(tail)}
        if since is not None:
            query["since"] = f"{since:.9f}"
        if timestamps:
            query["timestamps"] = "1"
        return self._stream_logs(id, query, action, framed=framed, follow=follow)

    def close(self) -> None:
        """Nothing to give back: a connection lasts as long as its call."""

    def _stream_logs(
        self, id: str, query: Mapping[str, str], action: str, *, framed: bool, follow: bool
    ) -> Iterator[bytes]:
        target = f"/containers/{id}/logs"
        # A scheduler may be silent for as long as it likes, and until it speaks an engine may be silent, too.
        seconds = None if follow else READ_SECONDS
        with self._api.open("GET", target, action, query=query, seconds=seconds) as (response, _):
            if response.status != 200:
                raise self._api.failure(EngineAnswer(response.status, {}, response.read(_PIECE)), action)
            while framed and len(header := response.read(8)) == 8:
                # Four bytes say which stream it is, four how much of it follows.
                left = int.from_bytes(header[4:])
                while left and (piece := response.read1(min(left, _PIECE))):
                    left -= len(piece)
                    yield piece
            while piece := response.read1(_PIECE):  # a terminal's output comes as it is
                yield piece

    def _await_end(self, id: str, timeout: float, action: str) -> int | None:
        target = f"/containers/{id}/wait"
        try:
            answer = self._api.call(
                "POST", target, action, query={"condition": "not-running"}, seconds=max(timeout, 0.001)
            )
        except NoAnswerError:
            return None
        if answer.status != 200:
            raise self._api.failure(answer, action)
        try:
            told = self._api.parse(answer.body, action)
            problem = (told.get("Error") or {}).get("Message")
            code = int(told["StatusCode"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._api.invalid(action) from error
        if problem:
            raise parse_failure(self.driver, 500, problem, action)
        return code

    def _find_image(self, content: Content) -> str | None:
        """The name under which the manifest is here: its repository's, or that of a mirror it was pulled from."""
        names = [_pin(source, content) for source in content.sources]
        return next((name for name in names if self._is_here(name, content)), None)

    def _is_here(self, name: str, content: Content) -> bool:
        action = f"inspect image {name}"
        answer = self._api.call("GET", f"/images/{name}/json", action)
        if answer.status == 404:
            return False
        if answer.status != 200:
            raise self._api.failure(answer, action)
        try:
            id = parse_image_id(self._api.parse(answer.body, action))
        except (KeyError, TypeError, AttributeError) as error:
            raise self._api.invalid(action) from error
        # The id is the digest of the configuration; docker with containerd's image store uses that of the manifest.
        if id not in (content.config.digest, content.manifest.digest):
            raise BadDataError(
                f"{self.driver}: {name} is image {id}, and {content.config.digest} was verified",
                hint=f"remove it and try again: {self.driver} rmi {name}",
            )
        return True

    def _pull_from(self, source: Source, content: Content, progress: Progress) -> None:
        from schedkit.runtimes.engine_pull import pull

        pull(self._api, content, source, progress)
        if not self._is_here(_pin(source, content), content):
            raise BadDataError(f"{self.driver} says that it pulled {_pin(source, content)}, and does not have it")

    def _fetch_images(self, parse: Callable[[Any], frozenset[str]]) -> frozenset[str]:
        action = "list images"
        try:
            return parse(self._api.fetch_json("/images/json", action))
        except (AttributeError, TypeError) as error:
            raise self._api.invalid(action) from error

    def _parse_aged(self, told: dict[str, Any]) -> tuple[float, Container]:
        try:
            return datetime.fromisoformat(told["Created"]).timestamp(), parse_container(self.driver, told)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._api.invalid(f"inspect container {str(told.get('Id'))[:12]}") from error

    def _is_marked(self, told: dict[str, Any]) -> bool:
        try:
            return is_marked(told)
        except (KeyError, TypeError, AttributeError) as error:
            raise self._api.invalid(f"inspect container {str(told.get('Id'))[:12]}") from error

    def _comes_from_image(self, told: dict[str, Any], deadline: float) -> bool:
        """Whether the provider's label is the image's own, so that it says nothing of who started the container."""
        action = "inspect an image"
        try:
            image = self._api.fetch_json(
                f"/images/{told['Image']}/json", action, seconds=max(0.001, deadline - time.monotonic())
            )
            name, value = PROVIDER
            return bool((image["Config"].get("Labels") or {}).get(name) == value)
        except NotFoundError:  # the engine forgot the image, so that nothing says that somebody meant the label
            return True
        except (KeyError, TypeError, AttributeError) as error:
            raise self._api.invalid(action) from error

    def _inspect(self, id: str, action: str, seconds: float | None = None) -> dict[str, Any]:
        told = self._api.fetch_json(f"/containers/{id}/json", action, seconds=seconds)
        if not isinstance(told, dict) or not isinstance(told.get("Config"), dict):
            raise self._api.invalid(action)
        return told


def _pin(source: Source, content: Content) -> str:
    """The manifest, never its index: of an index an engine would choose for itself, by rules of its own."""
    return f"{source.repository}@{content.manifest.digest}"
