"""A client of OCI registries that trusts no answer further than its digest."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

from schedkit.errors import BadDataError, NoAnswerError, NotFoundError, SchedkitError, UnavailableError
from schedkit.images.blobs import stream_blob
from schedkit.images.client import Endpoint, RegistryClient
from schedkit.images.connections import CONNECT_SECONDS, READ_SECONDS
from schedkit.images.credentials import Found, find_credentials
from schedkit.images.documents import (
    IMAGE_CONFIGS,
    Annotated,
    Index,
    Manifest,
    check_digest,
    find_media_type,
    make_digest,
    parse_config,
    parse_document,
    parse_tags,
)
from schedkit.images.image import Image, Platform, Signable
from schedkit.images.oci import INDEXES, MANIFESTS, BadMirrorError, Descriptor, Source
from schedkit.images.platforms import choose, fits, is_attestation, read_platform
from schedkit.images.reference import DEFAULT_TAG, Reference
from schedkit.images.settings import DEFAULTS, RegistrySettings
from schedkit.images.transport import Response, Transport

LARGEST_MANIFEST = 4 << 20
LARGEST_CONFIG = 4 << 20
LARGEST_PAGE = 4 << 20
MOST_TAGS = 50_000
MOST_REFERRERS = 1000
DEEPEST_INDEX = 3
NO_REFERRERS = (400, 404, 405, 406)  # what registries without the referrers API answer
ACCEPT = {"Accept": ", ".join((*MANIFESTS, *INDEXES))}

__all__ = ["Registry", "RegistrySettings"]

T = TypeVar("T")


class Registry:
    """Anonymous, basic or bearer, as the server asks and the user's credential files allow. Threads may share one."""

    def __init__(
        self,
        settings: RegistrySettings = DEFAULTS,
        *,
        environ: Mapping[str, str] = os.environ,
        sleep: Callable[[float], None] = time.sleep,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        find: Callable[[str, str], Found] | None = None,
    ) -> None:
        self.settings = settings
        self._look_up = find or (lambda registry, path: find_credentials(registry, path, environ))
        self._found: dict[tuple[str, str], Found] = {}
        self._silent: set[str] = set()  # mirrors that did not respond, or wrongly: asked no more
        self._transport = Transport(
            settings, environ=environ, sleep=sleep, connect_seconds=connect_seconds, read_seconds=read_seconds
        )
        self._client = RegistryClient(self._transport, self._find)

    def fetch_tags(self, reference: Reference) -> list[str]:
        """All tags of a repository, through all pages, newest version first (latest before all)."""
        from schedkit.images.tags import sort_tags

        about = reference.repository

        def ask(endpoint: Endpoint) -> list[str]:
            page = self._client.fetch_good(endpoint, "tags/list?n=1000", about=about, limit=LARGEST_PAGE)
            tags = parse_tags(page.body, about)
            for further in self._client.fetch_rest(endpoint, page, about=about, limit=LARGEST_PAGE):
                tags += parse_tags(further.body, about)
                if len(tags) > MOST_TAGS:
                    raise BadDataError(f"{about} has more than {MOST_TAGS} tags, which is more than we read")
            return sort_tags(tags)

        return self._try_each(reference, ask)

    def fetch_digests(self, reference: Reference) -> tuple[str, ...]:
        """What a tag points to now; of an index also this platform's manifest in it, as runtimes pull that one."""
        descriptor, data = self.fetch_document(reference)
        if descriptor.media_type not in INDEXES:
            return (descriptor.digest,)
        document = parse_document(descriptor.media_type, data, str(reference))
        entry = choose(document.manifests, read_platform()) if isinstance(document, Index) else None
        return (descriptor.digest, entry.digest) if entry else (descriptor.digest,)

    def fetch_document(self, reference: Reference, *, about: str = "") -> tuple[Descriptor, bytes]:
        """The manifest or index that a reference names, with its digest as computed from its bytes."""
        name = reference.digest or reference.tag or DEFAULT_TAG
        about = about or str(reference)

        def ask(endpoint: Endpoint) -> tuple[Descriptor, bytes]:
            answer = self._client.fetch_good(
                endpoint, f"manifests/{name}", about=about, limit=LARGEST_MANIFEST, headers=ACCEPT
            )
            if reference.digest:
                check_digest(answer.body, reference.digest, about)
            media_type = find_media_type(answer.body, answer.headers.get("content-type", ""), about)
            digest = reference.digest or make_digest(answer.body)
            return Descriptor(media_type, digest, len(answer.body)), answer.body

        return self._try_each(reference, ask)

    def fetch_image(self, reference: Reference, platform: Platform | None = None) -> Image:
        """Resolve to digests; `platform` defaults to this machine's. NotFoundError names what is offered instead."""
        if not reference.tag and not reference.digest:
            reference = reference._replace(tag=DEFAULT_TAG)
        wanted, about = platform or read_platform(), str(reference)
        descriptor, data = self.fetch_document(reference)
        manifests = [(descriptor, data)]
        platforms: tuple[Platform, ...] = ()
        for _ in range(DEEPEST_INDEX + 1):
            document = parse_document(descriptor.media_type, data, about)
            if isinstance(document, Manifest):
                break
            platforms += _list_platforms(document)
            entry = choose(document.manifests, wanted)
            if entry is None:
                raise _not_offered(about, wanted, platforms)
            descriptor, data = self.fetch_manifest(reference, entry.digest)
            if descriptor != entry.bare:
                raise BadDataError(f"{about}: {entry.digest} is not of the size or kind that its index says")
            manifests.append((descriptor, data))
        else:
            raise BadDataError(f"{about}: indexes within indexes, more than {DEEPEST_INDEX} deep")
        if document.config.media_type not in IMAGE_CONFIGS:
            kind = document.artifact_type or document.config.media_type
            raise BadDataError(f"{about} is not a container image but {kind[:100]!r}")
        config = parse_config(self.fetch_bytes(reference, document.config, LARGEST_CONFIG), about)
        if not fits(config.platform, wanted):
            raise _not_offered(about, wanted, (config.platform,))
        return Image(
            registry=self,
            source=reference,
            digest=manifests[0][0].digest,
            manifests=tuple(manifests),
            config=document.config,
            layers=tuple(layer.bare for layer in document.layers),
            platform=config.platform,
            platforms=tuple(dict.fromkeys(platforms)) or (config.platform,),
            labels=config.labels,
            created=config.created,
        )

    def fetch_signable(self, reference: Reference) -> Signable:
        """What a reference names now, be it an index: no platform is chosen from it."""
        if not reference.tag and not reference.digest:
            reference = reference._replace(tag=DEFAULT_TAG)
        descriptor, data = self.fetch_document(reference)
        parse_document(descriptor.media_type, data, str(reference))
        return Signable(self, reference, descriptor.digest, ((descriptor, data),))

    def fetch_manifest(self, reference: Reference, digest: str) -> tuple[Descriptor, bytes]:
        """One manifest or index of the reference's repository by digest."""
        return self.fetch_document(reference._replace(tag=None, digest=digest), about=str(reference))

    def fetch_blob(self, reference: Reference, blob: Descriptor, *, checked: bool = True) -> Iterator[bytes]:
        """Stream a blob of the reference's repository, checked while it streams unless whoever takes it does that.

        BadMirrorError: a mirror's was wrong. That mirror is asked no more; whoever starts again gets it from elsewhere.
        """
        about = str(reference)
        *mirrors, _ = self._endpoints(reference)
        used: set[Endpoint] = set()

        def open_at(offset: int) -> Response:
            def ask(endpoint: Endpoint) -> Response:
                response = self._open_blob(endpoint, blob, offset, about)
                used.add(endpoint)
                return response

            return self._try_each(reference, ask)

        try:
            yield from stream_blob(open_at, blob, about, checked=checked)
        except (BadDataError, NoAnswerError) as error:
            wrong = used.intersection(mirrors)
            if not wrong:
                raise
            self._silent.update(mirror.authority for mirror in wrong)
            raise BadMirrorError(error.message) from error

    def fetch_bytes(self, reference: Reference, blob: Descriptor, limit: int) -> bytes:
        """A small blob as a whole; one that says it is larger than `limit` is not even asked for."""
        if blob.size > limit:
            raise BadDataError(f"{reference}: {blob.digest} has {blob.size} bytes, more than the {limit} we read")
        while True:
            with suppress(BadMirrorError):  # each mirror can be wrong only once
                return b"".join(self.fetch_blob(reference, blob))

    def fetch_referrers(self, reference: Reference, digest: str) -> list[Annotated]:
        """What refers to a digest: the API where there is one, the tag sha256-<hex> where not."""
        *mirrors, origin = self._endpoints(reference)
        for endpoint in mirrors:
            # A mirror may hold an image without what refers to it: that there is nothing, only the registry can say.
            found = self._try_mirror(endpoint, lambda mirror: self._fetch_referrers(mirror, digest, str(reference)))
            if found:
                return found
        return self._fetch_referrers(origin, digest, str(reference))

    def limit(self, seconds: float, what: str) -> AbstractContextManager[None]:
        """Have all requests meanwhile, of all threads, done within this time; NoAnswerError for what is not."""
        return self._transport.limit(seconds, what)

    def find_sources(self, reference: Reference) -> list[Source]:
        """Where a runtime may pull this from, with the user's logins: mirrors, and at last the registry itself."""
        return [
            Source(
                f"{endpoint.registry}/{endpoint.path}",
                self._find(endpoint.registry, endpoint.path).credentials,
                endpoint.registry in self.settings.insecure or self._client.is_plain(endpoint.registry),
            )
            for endpoint in self._endpoints(reference)
        ]

    def probe(self, registry: str) -> None:
        """Ask a registry once whether it is there; an error that says why not."""
        self._client.probe(registry)

    def close(self) -> None:
        """Close connections."""
        self._transport.close()

    def _open_blob(self, endpoint: Endpoint, blob: Descriptor, offset: int, about: str) -> Response:
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        response = self._client.open(endpoint, f"blobs/{blob.digest}", about=about, headers=headers)
        expected = blob.size - offset if response.status == 206 else blob.size
        length = response.headers.get("content-length")
        if length is not None and length != str(expected):
            response.close()
            raise BadDataError(
                f"{about}: {blob.digest} has {blob.size} bytes, and {endpoint.registry} sends {length[:20]}"
            )
        return response

    def _fetch_referrers(self, endpoint: Endpoint, digest: str, about: str) -> list[Annotated]:
        first = self._client.fetch(endpoint, f"referrers/{digest}", about=about, limit=LARGEST_MANIFEST)
        fallback = first.status in NO_REFERRERS
        if fallback:
            tag = digest.replace(":", "-")
            first = self._client.fetch(
                endpoint, f"manifests/{tag}", about=about, limit=LARGEST_MANIFEST, headers=ACCEPT
            )
            if first.status == 404:
                return []
        if first.status != 200:
            raise self._client.explain(endpoint, first, about)
        found: list[Annotated] = []
        rest = () if fallback else self._client.fetch_rest(endpoint, first, about=about, limit=LARGEST_MANIFEST)
        for page in (first, *rest):
            media_type = find_media_type(page.body, page.headers.get("content-type", ""), about)
            document = parse_document(media_type, page.body, about)
            if not isinstance(document, Index):
                raise BadDataError(
                    f"{about}: {endpoint.registry} was asked for what refers to {digest} and sent no list"
                )
            found += document.manifests
            if len(found) > MOST_REFERRERS:
                raise BadDataError(f"{about}: more than {MOST_REFERRERS} things refer to {digest}")
        return found

    def _find(self, registry: str, path: str) -> Found:
        if (registry, path) not in self._found:
            self._found[registry, path] = self._look_up(registry, path)
        return self._found[registry, path]

    def _endpoints(self, reference: Reference) -> list[Endpoint]:
        """Where to ask, in order: the user's mirrors, and at last the registry itself."""
        places = self.settings.list_repositories(reference.registry, reference.path)
        return [Endpoint(registry, path) for registry, path in places]

    def _try_each(self, reference: Reference, ask: Callable[[Endpoint], T]) -> T:
        """The first answer of a mirror, or else the registry's, be it an error."""
        *mirrors, origin = self._endpoints(reference)
        for endpoint in mirrors:
            answer = self._try_mirror(endpoint, ask)
            if answer is not None:
                return answer
        return ask(origin)

    def _try_mirror(self, endpoint: Endpoint, ask: Callable[[Endpoint], T]) -> T | None:
        if endpoint.authority in self._silent:
            return None
        try:
            return ask(endpoint)
        except (UnavailableError, NoAnswerError):
            self._silent.add(endpoint.authority)
        except SchedkitError:
            pass  # it has not what we want, or not for us: the registry itself will say
        return None


def _list_platforms(index: Index) -> tuple[Platform, ...]:
    return tuple(entry.platform for entry in index.manifests if entry.platform and not is_attestation(entry))


def _not_offered(about: str, wanted: Platform, platforms: tuple[Platform, ...]) -> NotFoundError:
    offered = ", ".join(dict.fromkeys(str(platform) for platform in platforms)) or "no platform at all"
    return NotFoundError(f"{about} is not made for {wanted}", hint=f"it is there for {offered}")
