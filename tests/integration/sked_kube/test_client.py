"""Requests to a real API server: objects, pages, server-side apply, refusals."""

import asyncio
import contextlib
import json
import os
from base64 import b64decode
from pathlib import Path

import pytest

from lab.cluster import Cluster
from schedkit.sked.kube.certificates import make_self_signed
from schedkit.sked.kube.client import Client, Preconditions
from schedkit.sked.kube.config import Access, read_access
from schedkit.sked.kube.connection import UntrustedServerError
from schedkit.sked.kube.credentials import ApiIdentity, FixedCredentials, TokenFile
from schedkit.sked.kube.errors import (
    ApiAlreadyExistsError,
    ApiConflictError,
    ApiError,
    ApiForbiddenError,
    ApiInvalidError,
    ApiNotFoundError,
    ApiUnauthorizedError,
)
from schedkit.sked.kube.objects import Model, Object, ObjectMeta
from schedkit.sked.kube.resources import Resource
from tests.integration.sked_kube.tools import CONFIG_MAPS, ConfigMap, config_map, connect, until

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


async def test_object_is_created_read_changed_and_deleted(cluster: Cluster) -> None:
    async with connect(cluster) as client:
        created = await client.create(CONFIG_MAPS, ConfigMap, config_map("life", color="red"), namespace="default")
        assert created.metadata.uid
        assert (await client.fetch(CONFIG_MAPS, ConfigMap, "life", namespace="default")) == created
        with pytest.raises(ApiAlreadyExistsError):
            await client.create(CONFIG_MAPS, ConfigMap, config_map("life"), namespace="default")
        merged = await client.patch(CONFIG_MAPS, ConfigMap, "life", {"data": {"size": "9"}}, namespace="default")
        assert merged.data == {"color": "red", "size": "9"}
        steps = [{"op": "test", "path": "/data/size", "value": "9"}, {"op": "remove", "path": "/data/color"}]
        patched = await client.patch(CONFIG_MAPS, ConfigMap, "life", steps, namespace="default", kind="json")
        assert patched.data == {"size": "9"}
        version = patched.metadata.resource_version
        conditional = {"metadata": {"resourceVersion": version}, "data": {"size": "10"}}
        await client.patch(CONFIG_MAPS, ConfigMap, "life", conditional, namespace="default")
        with pytest.raises(ApiConflictError):
            await client.patch(CONFIG_MAPS, ConfigMap, "life", conditional, namespace="default")
        wrong = Preconditions(uid="somebody-else")
        with pytest.raises(ApiConflictError):
            await client.delete(CONFIG_MAPS, "life", namespace="default", preconditions=wrong)
        right = Preconditions(uid=created.metadata.uid)
        await client.delete(CONFIG_MAPS, "life", namespace="default", preconditions=right, propagation="Background")
        with pytest.raises(ApiNotFoundError):
            await client.fetch(CONFIG_MAPS, ConfigMap, "life", namespace="default")


async def test_server_side_apply_owns_its_fields_and_meets_those_of_others(cluster: Cluster) -> None:
    async with connect(cluster) as client:
        await client.apply(CONFIG_MAPS, ConfigMap, "owned", config_map("owned", a="1", b="1"), namespace="default")
        smaller = config_map("owned", a="1")
        applied = await client.apply(CONFIG_MAPS, ConfigMap, "owned", smaller, namespace="default")
        assert applied.data == {"a": "1"}, "what we no longer apply is gone"
        again = await client.apply(CONFIG_MAPS, ConfigMap, "owned", smaller, namespace="default")
        assert again.metadata.resource_version == applied.metadata.resource_version, "nothing changed"
        manifest = json.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned"}, "data": {"c": "2"}}
        )
        cluster.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", input=manifest)
        theirs = config_map("owned", a="1", c="mine")
        with pytest.raises(ApiConflictError, match='conflict with "other"') as raised:
            await client.apply(CONFIG_MAPS, ConfigMap, "owned", theirs, namespace="default")
        assert [cause.field for cause in raised.value.status.details.causes] == [".data.c"]
        now = await client.fetch(CONFIG_MAPS, ConfigMap, "owned", namespace="default")
        assert now.data == {"a": "1", "c": "2"}
        forced = await client.apply(CONFIG_MAPS, ConfigMap, "owned", theirs, namespace="default", force=True)
        assert forced.data == {"a": "1", "c": "mine"}
        text = cluster.kubectl("get", "configmap", "owned", "-o", "json", "--show-managed-fields").stdout
        managers = {entry["manager"] for entry in json.loads(text)["metadata"]["managedFields"]}
        assert "sked" in managers


class DeploymentStatus(Model, frozen=True):
    observed_generation: int = 0
    replicas: int = 0


class Deployment(Model, frozen=True):
    metadata: ObjectMeta
    status: DeploymentStatus | None = None


async def test_status_is_written_apart_from_the_rest(cluster: Cluster) -> None:
    cluster.kubectl("create", "deployment", "idle", "--image=none", "--replicas=0")

    async with connect(cluster) as client:
        body = {"metadata": {"labels": {"ignored": "yes"}}, "status": {"observedGeneration": 77}}
        patched = await client.patch(DEPLOYMENTS, Deployment, "idle", body, namespace="default", status=True)
        assert patched.status is not None
        assert patched.status.observed_generation == 77
        assert "ignored" not in patched.metadata.labels


async def test_refusals_have_types_and_the_servers_words(cluster: Cluster, tmp_path: Path) -> None:
    nobody = tmp_path / "nobody.kubeconfig"
    nobody.write_text(cluster.make_kubeconfig("nobody"))

    async with connect(cluster) as client:
        with pytest.raises(ApiInvalidError, match="a lowercase RFC 1123 subdomain") as raised:
            await client.create(CONFIG_MAPS, Object, config_map("Not Valid"), namespace="default")
        assert [cause.field for cause in raised.value.status.details.causes] == ["metadata.name"]
        with pytest.raises(ApiNotFoundError, match="there is no such kind"):
            await client.fetch(Resource("no.such", "v1", "things", "Thing"), Object, "a", namespace="default")
    async with connect(cluster, kubeconfig=nobody) as client:
        with pytest.raises(ApiForbiddenError, match='User "nobody" cannot get resource "configmaps"') as denied:
            await client.fetch(CONFIG_MAPS, Object, "a", namespace="default")
        assert "Role" in denied.value.hint


def daemonset(**container: object) -> dict[str, object]:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "none"} | container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "refused"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


@pytest.mark.parametrize(
    ("container", "code", "said"),
    [
        ({"resources": {"limits": {"cpu": "much"}}}, 500, "quantities must match"),
        ({"image": 5}, 500, "expected string"),
        ({"nonsense": True}, 500, "field not declared in schema"),
        ({"imagePullPolicy": "Sometimes"}, 422, "Unsupported value"),
        ({"args": ["x" * 800_000, "y" * 1_000_000]}, 500, "request is too large"),
    ],
    ids=["quantity", "type", "field", "value", "size"],
)
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_object_that_can_never_be_is_a_permanent_refusal(
    cluster: Cluster, container: dict[str, object], code: int, said: str
) -> None:
    async with connect(cluster) as client:
        with pytest.raises(ApiError, match=said) as raised:
            await client.apply(DAEMONSETS, Object, "refused", daemonset(**container), namespace="default")
        assert (raised.value.code, raised.value.is_permanent) == (code, True)


async def test_webhook_that_cannot_be_called_is_no_permanent_refusal(cluster: Cluster) -> None:
    webhook = {
        "name": "away.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        "objectSelector": {"matchLabels": {"ask": "webhook"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    manifest = json.dumps({**kind, "metadata": {"name": "away"}, "webhooks": [webhook]})
    cluster.kubectl("apply", "-f", "-", input=manifest)

    try:
        async with connect(cluster) as client:
            met: list[ApiError] = []

            async def meets_webhook() -> bool:  # the API server takes a moment to know of it
                body = {"metadata": {"generateName": "asked-", "labels": {"ask": "webhook"}}}
                try:
                    await client.create(CONFIG_MAPS, Object, body, namespace="default")
                except ApiError as error:
                    met.append(error)
                return bool(met)

            async with asyncio.timeout(60):
                while not await meets_webhook():
                    await asyncio.sleep(0.1)
            assert "failed calling webhook" in met[0].message
            assert (met[0].code, met[0].status_reason, met[0].is_permanent) == (500, "InternalError", False)
    finally:
        cluster.kubectl("delete", kind["kind"], "away")


def access_with(cluster: Cluster, **changes: object) -> Access:
    access = read_access({}, kubeconfig=cluster.admin_kubeconfig)
    values = {name: getattr(access, name) for name in access.__dataclass_fields__}
    return Access(**(values | changes))


async def test_token_is_read_again_when_the_server_refuses_it(cluster: Cluster, tmp_path: Path) -> None:
    cluster.kubectl("create", "serviceaccount", "caller")
    cluster.kubectl("create", "clusterrolebinding", "caller", "--clusterrole=view", "--serviceaccount=default:caller")
    token = tmp_path / "token"
    token.write_text("stale")

    async with Client(access_with(cluster, credentials=TokenFile(token))) as client:
        with pytest.raises(ApiUnauthorizedError):
            await client.fetch(NAMESPACES, Object, "default")
        token.write_text(cluster.kubectl("create", "token", "caller").stdout.strip())
        assert (await client.fetch(CONFIG_MAPS, Object, "kube-root-ca.crt", namespace="default")).metadata.uid


async def test_plugin_says_who_we_are_and_its_certificate_may_change(cluster: Cluster, tmp_path: Path) -> None:
    """A plugin that gives another user's certificate each time it runs; each runs out at once."""
    users = []
    for number in (1, 2):
        config = json.loads(cluster.make_kubeconfig(f"plugged-{number}"))
        users.append({name: b64decode(data).decode() for name, data in config["users"][0]["user"].items()})
        status = {
            "clientCertificateData": users[-1]["client-certificate-data"],
            "clientKeyData": users[-1]["client-key-data"],
            "expirationTimestamp": "2020-01-01T00:00:00Z",
        }
        answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        (tmp_path / f"{number}.json").write_text(json.dumps(answer))
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\ncd {tmp_path}; cat 1.json; mv 2.json 1.json 2>/dev/null; true\n")
    plugin.chmod(0o700)
    config = json.loads(cluster.make_kubeconfig("unused"))
    config["users"][0]["user"] = {"exec": {"apiVersion": answer["apiVersion"], "command": "./plugin"}}
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps(config))

    access = read_access({"PATH": os.environ["PATH"]}, kubeconfig=kubeconfig)
    async with Client(access) as client:
        for number in (1, 2):
            with pytest.raises(ApiForbiddenError, match=f'User "plugged-{number}"'):
                await client.fetch(NAMESPACES, Object, "default")


class Proxy:
    """The least of HTTP proxies: it connects, and passes on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        target = request.split(b" ")[1].decode()
        self.asked.append(target)
        host, port = target.rsplit(":", 1)
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.open += 1
        await asyncio.gather(pipe(reader, there_writer), pipe(there_reader, writer))
        self.open -= 1


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_proxy_of_the_kubeconfig_is_used_and_the_server_still_verified(cluster: Cluster) -> None:
    proxy = Proxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(access_with(cluster, proxy=address)) as client:
            assert (await client.fetch(NAMESPACES, Object, "default")).metadata.name == "default"
        stranger = access_with(cluster, proxy=address, authority=make_self_signed("stranger").certificate)
        async with Client(stranger) as client:
            with pytest.raises(UntrustedServerError, match="certificate is not trusted"):
                await client.fetch(NAMESPACES, Object, "default")
        await until(lambda: proxy.open == 0)
    assert set(proxy.asked) == {f"127.0.0.1:{cluster.api_port}"}


async def test_server_of_another_authority_is_not_talked_to(cluster: Cluster) -> None:
    stranger = access_with(cluster, authority=make_self_signed("stranger").certificate)
    async with Client(stranger) as client:
        with pytest.raises(UntrustedServerError, match="certificate is not trusted: unable to get local issuer"):
            await client.fetch(NAMESPACES, Object, "default")
    wrong_name = access_with(cluster, tls_server_name="elsewhere.example")
    async with Client(wrong_name) as client:
        with pytest.raises(UntrustedServerError, match="certificate is not trusted: Hostname mismatch"):
            await client.fetch(NAMESPACES, Object, "default")
    right_name = access_with(cluster, tls_server_name="kubernetes.default.svc")
    async with Client(right_name) as client:
        assert (await client.fetch(NAMESPACES, Object, "default")).metadata.name == "default"


async def test_nobody_is_nobody(cluster: Cluster) -> None:
    async with Client(access_with(cluster, credentials=FixedCredentials(ApiIdentity()))) as client:
        with pytest.raises((ApiForbiddenError, ApiUnauthorizedError)):
            await client.fetch(NAMESPACES, Object, "default")


async def test_impersonation_takes_the_rights_of_the_other(cluster: Cluster) -> None:
    async with Client(access_with(cluster, impersonation=(("Impersonate-User", "mallory"),))) as client:
        with pytest.raises(ApiForbiddenError, match='User "mallory"'):
            await client.fetch(NAMESPACES, Object, "default")
