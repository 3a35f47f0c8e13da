"""One aiohttp session to the API server: TLS, identity, proxy, and typed failures; it tries once."""

import asyncio
import os
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp import connector
from multidict import CIMultiDict

from schedkit.sked.kube.config import Access, make_ssl_context
from schedkit.sked.kube.credentials import ApiIdentity, CertificatePair
from schedkit.sked.kube.errors import (
    ApiUnauthorizedError,
    ConfigError,
    ConnectionLostError,
    make_api_error,
    parse_status,
)
from schedkit.sked.kube.metrics import MetricsRegistry

CONNECT_SECONDS = 10.0
REFUSAL_BYTES = 1 << 20  # more of a refusal than this nobody reads
# asyncio reads into a quarter of a megabyte for each TLS connection, of which there is one for each worker and watch;
# one of TLS's records does. There is no other way to tell it.
SSLProtocol.max_size = 16 << 10


def _make_bare_context(*, verify: bool) -> ssl.SSLContext:
    """A context without any authority, which trusts nobody or does not ask."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


# For sessions that bring no context aiohttp has two, and each has read all authorities of the system by the time it is
# imported, which takes 2 MB. Sessions to API servers bring their own. There is no other way to tell it, either.
connector._SSL_CONTEXT_VERIFIED = _make_bare_context(verify=True)
connector._SSL_CONTEXT_UNVERIFIED = _make_bare_context(verify=False)


class NeverSentError(ConnectionLostError):
    """The request did not reach the API server, so nothing was done."""


class UntrustedServerError(NeverSentError):
    """Whoever answered could not prove to be the API server; asking again would not help."""

    reason = "ApiServerUntrusted"


class Connection:
    """Sends requests as whoever we are at the moment."""

    def __init__(self, access: Access, registry: MetricsRegistry | None = None, user_agent: str = "sked") -> None:
        self._access = access
        self._user_agent = user_agent
        self._tls = make_ssl_context(access) if access.server.startswith("https:") else None
        self._loaded: CertificatePair | None = None
        self._session: aiohttp.ClientSession | None = None
        self._answers: set[aiohttp.ClientResponse] = set()  # that somebody reads
        self._host = urlsplit(access.server).netloc.rpartition("@")[2]
        self._requests = (registry or MetricsRegistry()).counter(
            "rest_client_requests_total", "Requests to the API server.", ("code", "method", "host")
        )

    async def __aenter__(self) -> Self:
        self._session = self._make_session()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # what was aborted closes its socket in the loop's next turn

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        doing: str,
        body: bytes | None = None,
        content_type: str = "application/json",
        total_seconds: float | None,
        read_seconds: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request and give the answer to read; credentials that are refused are renewed, once."""
        timeout = aiohttp.ClientTimeout(total=total_seconds, sock_connect=CONNECT_SECONDS, sock_read=read_seconds)
        identity = await self._identify()
        for last in (False, True):
            session = self._session
            if session is None:
                raise ConnectionLostError(f"{doing}: the connection is closed")
            code = "<error>"
            try:
                async with session.request(
                    method,
                    self._access.server + path,
                    params=query,
                    data=body,
                    headers=self._headers(identity, content_type if body is not None else ""),
                    timeout=timeout,
                    proxy=self._access.proxy or None,
                    server_hostname=self._access.tls_server_name or None,
                    allow_redirects=False,
                ) as response:
                    code = str(response.status)
                    if session is not self._session:
                        _lose(response)
                    self._answers.add(response)
                    try:
                        if response.status < 300:
                            yield response
                            return
                        refused = await _read_refusal(response, doing)
                    finally:
                        self._answers.discard(response)
                        _drop_unread(response)
            except aiohttp.ClientConnectorCertificateError as error:
                hint = (
                    "the certificate authority of the kubeconfig or service account must have signed it for this name"
                )
                why = getattr(error.certificate_error, "verify_message", "") or "verification failed"
                raise UntrustedServerError(
                    f"{doing}: the server's certificate is not trusted: {why}", hint=hint
                ) from error
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise NeverSentError(f"{doing}: cannot connect to {self._host}: {_strip(error)}") from error
            except (aiohttp.ClientError, TimeoutError, ConnectionError, ssl.SSLError) as error:
                raise ConnectionLostError(f"{doing}: the answer was lost: {_strip(error)}") from error
            finally:
                self._requests.of(code, method, self._host).increase()
            if last or not isinstance(refused, ApiUnauthorizedError):
                raise refused
            self._access.credentials.forget(identity)
            renewed = await self._identify()
            if renewed.authorization == identity.authorization and renewed.certificate == identity.certificate:
                raise refused
            identity = renewed

    def _make_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            # Workers and informers bound the number of connections; a limit here would let watches starve writes.
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls or False, keepalive_timeout=60),
            # Compressing costs both sides more than a cluster's network does.
            headers={"User-Agent": self._user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _identify(self) -> ApiIdentity:
        identity = await self._access.credentials.fetch()
        if identity.certificate is not None and identity.certificate != self._loaded and self._tls is not None:
            load_pair(self._tls, identity.certificate)
            is_first, self._loaded = self._loaded is None, identity.certificate
            if self._session is not None and not is_first:
                # Open connections are still those of the old certificate; who uses one now is told that it is lost.
                old, self._session = self._session, self._make_session()
                for response in self._answers:
                    _lose(response)
                await old.close()
        return identity

    def _headers(self, identity: ApiIdentity, content_type: str) -> CIMultiDict[str]:
        headers = CIMultiDict(self._access.impersonation)
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        if content_type:
            headers["Content-Type"] = content_type
        return headers


def load_pair(context: ssl.SSLContext, pair: CertificatePair) -> None:
    """Give a context a certificate that is not in a file: OpenSSL reads only files, so they are made of memory."""
    descriptors = []
    try:
        for content in (pair.certificate, pair.key):
            descriptors.append(os.memfd_create("pem"))
            view = memoryview(content)
            while view:
                view = view[os.write(descriptors[-1], view) :]
        # No password is asked for: there is nobody to answer.
        certificate, key = (f"/proc/self/fd/{number}" for number in descriptors)
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        hint = "are they PEM, without a password, and of one pair?"
        raise ConfigError("the client certificate and key cannot be used", hint=hint) from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _lose(response: aiohttp.ClientResponse) -> None:
    """Tell who reads an answer of a session that is closed, unless all of it is there: aiohttp would let them wait."""
    if not response.content.is_eof():
        response.content.set_exception(aiohttp.ClientConnectionError("the client certificate was renewed"))


def _drop_unread(response: aiohttp.ClientResponse) -> None:
    """Cut the connection of an answer that was not read to its end, as a watch is: TLS would wait for a farewell."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


async def _read_refusal(response: aiohttp.ClientResponse, doing: str) -> Exception:
    body = bytearray()
    # One read gives what has arrived, which may be a part of it.
    while len(body) < REFUSAL_BYTES and (part := await response.content.read(REFUSAL_BYTES - len(body))):
        body += part
    after = response.headers.get("Retry-After", "")
    seconds = float(after) if after.isdecimal() else None
    return make_api_error(parse_status(response.status, bytes(body)), doing, retry_after=seconds)


def _strip(error: BaseException) -> str:
    """An error in a few words; some of aiohttp's and ssl's go on for lines, or say nothing."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {error.message}"  # not its address: a proxy's may hold a password
    number = error.os_error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    if number and number > 0:  # asyncio itself says: Connect call failed ('127.0.0.1', 6443)
        return os.strerror(number).lower()
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (reason.splitlines() or [""])[0][:200] or type(error).__name__
