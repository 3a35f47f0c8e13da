"""The API server, as far as one report needs it: read it, create it, apply its status.

http.client and json, and a connection for each exchange: there are few, and what is kept open takes memory for good.
"""

import base64
import binascii
import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from schedkit import __version__
from schedkit.errors import SchedkitError, UnavailableError, clean
from schedkit.sked.agent.report import Report
from schedkit.sked.api.names import API_VERSION, NODE_KIND, NODE_PLURAL

FIELD_MANAGER = "sked-agent"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
WAIT_SECONDS = 10.0  # for a connection, and for each part of an answer
EXCHANGE_SECONDS = 30  # for all of it
_LONGEST_ANSWER = 1 << 20
_LONGEST_TOLD = 300
_LONGEST_RETRY_AFTER = 300.0
_APPLY = "application/apply-patch+yaml"  # JSON is YAML too
_Json = dict[str, Any]


class ReportNotWrittenError(SchedkitError):
    """The API server could not be reached or refused.

    `code` is the status of its refusal, `retry_after` how long it asks to be left alone.
    """

    reason = "ReportNotWritten"

    def __init__(self, message: str, *, code: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class ApiServer(NamedTuple):
    """Where it is, and the folder with our token and its authority, which are read again for each exchange."""

    host: str
    port: int
    folder: Path = SERVICE_ACCOUNT


class StoredReport(NamedTuple):
    """The report as the API server has it."""

    status: Report
    is_owned: bool  # by the node that our token is bound to


def find_api_server(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ApiServer:
    """Find the API server as every pod does; proxies are not for it."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        hint = "sked agent runs in a pod: config/agent installs it, and so does the chart"
        raise UnavailableError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT name no API server", hint=hint)
    return ApiServer(host, int(port), folder)


def fetch_report(server: ApiServer, name: str) -> StoredReport | None:
    """Read a node's report; None where there is none."""
    try:
        found = _exchange(server, "GET", _path(name))
    except ReportNotWrittenError as error:
        if error.code == 404:
            return None
        raise
    metadata, status = found.get("metadata"), found.get("status")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    uids = {owner.get("uid") for owner in owners or () if isinstance(owner, dict)} if isinstance(owners, list) else ()
    uid = read_node_uid(_read_token(server))
    return StoredReport(status if isinstance(status, dict) else {}, not uid or uid in uids)


def write_report(server: ApiServer, name: str, status: Report, *, create: bool) -> None:
    """Apply the status, and where there is no report, or it is not our node's own yet, create it before."""
    if not create:
        try:
            _apply(server, f"{_path(name)}/status", {**_describe(name), "status": status})
        except ReportNotWrittenError as error:
            if error.code != 404:
                raise
        else:
            return
    _apply(server, _path(name), _describe(name, read_node_uid(_read_token(server))))
    _apply(server, f"{_path(name)}/status", {**_describe(name), "status": status})


def read_node_uid(token: str) -> str:
    """The uid of the node that a pod's token is bound to; empty where it is not told (before Kubernetes 1.30).

    So the agent needs no right to read nodes, which RBAC could not limit to its own. The token is ours: it is not
    verified here.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        uid = claims["kubernetes.io"]["node"]["uid"]
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error, RecursionError):
        return ""
    return uid if isinstance(uid, str) else ""


def _path(name: str) -> str:
    return f"/apis/{API_VERSION}/{NODE_PLURAL}/{quote(name, safe='')}"


def _describe(name: str, node_uid: str = "") -> _Json:
    metadata: _Json = {"name": name}
    if node_uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": API_VERSION, "kind": NODE_KIND, "metadata": metadata}


def _apply(server: ApiServer, path: str, body: _Json) -> None:
    _exchange(server, "PATCH", f"{path}?fieldManager={FIELD_MANAGER}&force=true", body)


def _exchange(server: ApiServer, method: str, path: str, body: _Json | None = None) -> _Json:
    headers = {
        "Authorization": f"Bearer {_read_token(server)}",
        "Accept": "application/json",
        "User-Agent": f"sked-agent/{__version__}",
    }
    if body is not None:
        headers["Content-Type"] = _APPLY
    connection = http.client.HTTPSConnection(
        server.host, server.port, timeout=WAIT_SECONDS, context=_make_context(server)
    )
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        content = response.read(_LONGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        told = str(error) or type(error).__name__
        raise ReportNotWrittenError(f"{method} {path}: {clean(told)[:_LONGEST_TOLD]}") from error
    finally:
        connection.close()
    answer = _parse(content) if len(content) <= _LONGEST_ANSWER else None
    if response.status in (200, 201) and answer is not None:
        return answer
    said = (answer or {}).get("message")
    told = said if isinstance(said, str) and response.status not in (200, 201) else "not an answer of an API server"
    if response.status == 404 and answer is None:  # to a path of no API at all it answers with one line of text
        told = f"the cluster has no {NODE_KIND}: its CustomResourceDefinition is not installed"
    raise ReportNotWrittenError(
        f"{method} {path}: {clean(told)[:_LONGEST_TOLD]} ({response.status})",
        code=0 if answer is None else response.status,
        retry_after=_parse_seconds(response.getheader("Retry-After")),
    )


def _make_context(server: ApiServer) -> ssl.SSLContext:
    """Verify the server against the cluster's authority, as client-go does.

    Without VERIFY_X509_STRICT, that is, which create_default_context sets from Python 3.13 on: it refuses authorities
    without key identifiers, as EKS and some of GKE's clusters have them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=server.folder / "ca.crt")
    except OSError as error:  # ssl.SSLError is one
        told = error.strerror or "not a certificate"
        raise ReportNotWrittenError(f"the cluster's authority {server.folder / 'ca.crt'}: {told}") from error
    return context


def _read_token(server: ApiServer) -> str:
    path = server.folder / "token"
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a token"
        raise ReportNotWrittenError(f"the service account's token {path}: {why}") from error
    if not token or not token.isprintable() or " " in token:
        raise ReportNotWrittenError(f"the service account's token {path}: not a token")
    return token


def _parse(content: bytes) -> _Json | None:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _parse_seconds(text: str | None) -> float:
    return min(float(text), _LONGEST_RETRY_AFTER) if text and text.isascii() and text.isdecimal() else 0.0
