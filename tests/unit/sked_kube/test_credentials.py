"""Tokens in files and credential plugins: read again when it is time, and asked again when refused."""

import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from schedkit.sked.kube.certificates import make_self_signed
from schedkit.sked.kube.credentials import Plugin, TokenFile
from schedkit.sked.kube.errors import ConfigError
from schedkit.sked.kube.kubeconfig import Exec, ExecVariable

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def day(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)


async def test_token_file_is_read_again_after_a_while_or_when_it_was_refused(tmp_path: Path) -> None:
    time, path = Time(), tmp_path / "token"
    path.write_text("one\n")
    credentials = TokenFile(path, clock=time)
    assert (await credentials.fetch()).authorization == "Bearer one"
    path.write_text("two\n")
    assert (await credentials.fetch()).authorization == "Bearer one"
    time.seconds += 60
    assert (await credentials.fetch()).authorization == "Bearer two"
    path.write_text("three\n")
    credentials.forget(await credentials.fetch())
    assert (await credentials.fetch()).authorization == "Bearer three"


async def test_token_file_that_vanishes_is_forgiven_until_the_token_is_refused(tmp_path: Path) -> None:
    time, path = Time(), tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, clock=time)
    await credentials.fetch()
    path.unlink()
    time.seconds += 60
    assert (await credentials.fetch()).authorization == "Bearer one"
    credentials.forget(await credentials.fetch())
    with pytest.raises(ConfigError, match="cannot be read"):
        await credentials.fetch()
    path.write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        await credentials.fetch()


def write_plugin(folder: Path, body: str) -> str:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def answer(version: str = V1, **status: object) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_plugin_is_run_once_until_its_credential_expires(tmp_path: Path, version: str) -> None:
    time, count = Time(), tmp_path / "count"
    expires = (NOON + timedelta(minutes=10)).isoformat()
    text = answer(version, token="TOKEN", expirationTimestamp=expires).replace("TOKEN", "t-$n")
    program = f"echo x >> {count}; n=$(grep -c x {count}); cat <<END\n{text}\nEND"
    settings = Exec(write_plugin(tmp_path, program), version)
    plugin = Plugin(settings, {"PATH": "/usr/bin:/bin"}, now=time.day)
    answers = await asyncio.gather(*(plugin.fetch() for _ in range(5)))
    assert {identity.authorization for identity in answers} == {"Bearer t-1"}
    time.seconds = 569
    assert (await plugin.fetch()).authorization == "Bearer t-1"
    time.seconds = 571
    assert (await plugin.fetch()).authorization == "Bearer t-2"
    time.seconds = 0
    refused = await plugin.fetch()
    plugin.forget(refused)
    assert (await plugin.fetch()).authorization == "Bearer t-3"
    plugin.forget(refused)
    assert (await plugin.fetch()).authorization == "Bearer t-3", "the refused one is not this one"


async def test_plugin_gets_its_arguments_its_variables_and_the_cluster(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = f"echo \"$1 $WHO $KUBERNETES_EXEC_INFO\" > {told}; echo '{answer(token='t')}'"
    settings = Exec(
        write_plugin(tmp_path, program), V1, ["login"], [ExecVariable("WHO", "me")], provide_cluster_info=True
    )
    await Plugin(settings, {"PATH": "/usr/bin:/bin"}, cluster={"server": "https://here"}).fetch()
    argument, who, information = told.read_text().split(" ", 2)
    assert (argument, who) == ("login", "me")
    assert json.loads(information) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://here"}},
    }


async def test_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    pair = make_self_signed("me")
    given = answer(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())
    (tmp_path / "given").write_text(given)
    settings = Exec(write_plugin(tmp_path, f"cat {tmp_path / 'given'}"), V1)
    assert (await Plugin(settings, {"PATH": "/usr/bin:/bin"}).fetch()).certificate == pair


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo please log in >&2; exit 3", "failed with status 3: please log in"),
        ("echo Authorization: Bearer abcdefghijk >&2; exit 1", r"Bearer \[redacted\]"),
        ("exit 1", "failed with status 1$"),
        ("echo secret-token", "printed no ExecCredential"),
        (f"echo '{answer(V1BETA1, token='secret-token')}'", "another kind or version"),
        (f"echo '{answer()}'", "neither token nor certificate"),
        (f"echo '{answer(clientKeyData='secret-token')}'", "without its key, or a key alone"),
        (f"echo '{answer(token='secret-token', expirationTimestamp='2026-01-01T00:00:00')}'", "without a time zone"),
        (f"echo '{answer(token=['secret-token'])}'", "printed no ExecCredential"),
    ],
)
def test_plugin_that_fails_is_named_and_what_it_printed_is_not_repeated(
    tmp_path: Path, program: str, said: str
) -> None:
    plugin = Plugin(Exec(write_plugin(tmp_path, program), V1), {"PATH": "/usr/bin:/bin"})
    with pytest.raises(ConfigError, match=said) as raised:
        asyncio.run(plugin.fetch())
    assert "secret-token" not in raised.value.message
    assert "abcdefghijk" not in raised.value.message


def test_plugin_that_is_not_there_gives_its_install_hint() -> None:
    plugin = Plugin(Exec("no-such-plugin", V1, install_hint="apt install it"), {"PATH": "/usr/bin:/bin"})
    with pytest.raises(ConfigError, match="no-such-plugin does not start") as raised:
        asyncio.run(plugin.fetch())
    assert raised.value.hint == "apt install it"


def test_plugin_of_an_unknown_version_or_in_need_of_a_terminal_is_refused() -> None:
    with pytest.raises(ConfigError, match="v1alpha1"):
        Plugin(Exec("p", "client.authentication.k8s.io/v1alpha1"), {})
    with pytest.raises(ConfigError, match="wants a terminal"):
        Plugin(Exec("p", V1, interactive_mode="Always"), {})
