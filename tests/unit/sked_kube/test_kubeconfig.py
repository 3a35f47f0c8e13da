"""Ways to the API server, good and bad; what is wrong is said in one sentence that gives no secret away."""

import asyncio
import base64
import json
import ssl
from pathlib import Path

import pytest

from schedkit.sked.kube.certificates import make_self_signed
from schedkit.sked.kube.config import Access, choose_proxy, make_ssl_context, read_access
from schedkit.sked.kube.errors import ConfigError

SECRET = "hunter2-do-not-show"
CONFIG = """
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: here
  cluster: {server: "https://here:6443/", certificate-authority: ca.crt}
- name: there
  cluster: {server: "https://there:6443", insecure-skip-tls-verify: true, tls-server-name: api, proxy-url: "http://p:1"}
users:
- name: me
  user: {token: hunter2-do-not-show}
- name: nobody
contexts:
- name: one
  context: {cluster: here, user: me, namespace: mine}
- name: two
  context: {cluster: there, user: nobody}
"""


def write_config(folder: Path, text: str = CONFIG, name: str = "config") -> Path:
    (folder / "ca.crt").write_bytes(make_self_signed("ca").certificate)
    (folder / name).write_text(text)
    return folder / name


def read(folder: Path, text: str = CONFIG) -> Access:
    return read_access({}, kubeconfig=write_config(folder, text))


def authorization(access: Access) -> str:
    return asyncio.run(access.credentials.fetch()).authorization


def test_current_context_says_server_authority_user_and_namespace(tmp_path: Path) -> None:
    access = read(tmp_path)
    assert (access.server, access.namespace, access.verify) == ("https://here:6443", "mine", True)
    assert authorization(access) == f"Bearer {SECRET}"
    assert access.authority == (tmp_path / "ca.crt").read_bytes()
    context = make_ssl_context(access)
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.cert_store_stats()["x509"] == 1, "what the system trusts is not trusted"


def test_other_context_and_not_verifying_only_where_the_file_says_so(tmp_path: Path) -> None:
    access = read(tmp_path, CONFIG.replace("current-context: one", "current-context: two"))
    assert (access.tls_server_name, access.proxy, access.verify) == ("api", "http://p:1", False)
    assert make_ssl_context(access).verify_mode == ssl.CERT_NONE
    assert authorization(access) == ""


def test_several_files_are_merged_and_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = tmp_path / "first"
    first.write_text(
        "current-context: three\n"
        "users: [{name: me, user: {token: first}}]\n"
        "contexts: [{name: three, context: {cluster: here, user: me}}]\n"
    )
    second = write_config(tmp_path / "other")
    access = read_access({"KUBECONFIG": f"{first}:{tmp_path / 'absent'}:{second}"})
    assert access.server == "https://here:6443"
    assert authorization(access) == "Bearer first"
    assert access.authority == (tmp_path / "other" / "ca.crt").read_bytes(), "paths are meant from their own file"


def test_home_folder_is_the_last_resort_and_a_cluster_comes_before_it(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write_config(tmp_path / ".kube")
    assert read_access({"HOME": str(tmp_path)}).server == "https://here:6443"
    account = write_account(tmp_path)
    inside = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert read_access(inside, service_account=account).server == "https://10.96.0.1:443"


def write_account(folder: Path) -> Path:
    account = folder / "account"
    account.mkdir()
    (account / "token").write_text("first\n")
    (account / "namespace").write_text("sked-system")
    (account / "ca.crt").write_bytes(make_self_signed("ca").certificate)
    return account


def test_service_account_gives_namespace_and_token(tmp_path: Path) -> None:
    account = write_account(tmp_path)
    access = read_access({"KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account=account)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "sked-system")
    assert authorization(access) == "Bearer first"


def test_service_account_that_is_not_mounted_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token cannot be read"):
        read_access({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, service_account=tmp_path)


def test_client_certificate_from_data_and_from_files(tmp_path: Path) -> None:
    pair = make_self_signed("me")
    data = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    by_data = read(tmp_path, CONFIG.replace("{token: hunter2-do-not-show}", json.dumps(data)))
    assert asyncio.run(by_data.credentials.fetch()).certificate == pair
    (tmp_path / "me.crt").write_bytes(pair.certificate)
    (tmp_path / "me.key").write_bytes(pair.key)
    files = "{client-certificate: me.crt, client-key: me.key}"
    by_files = read(tmp_path, CONFIG.replace("{token: hunter2-do-not-show}", files))
    assert asyncio.run(by_files.credentials.fetch()).certificate == pair


def test_password_and_impersonation_are_sent(tmp_path: Path) -> None:
    access = read(tmp_path, CONFIG.replace("{token: ", "{as: robot, as-groups: [a, b], username: u, password: "))
    assert authorization(access) == "Basic " + base64.b64encode(f"u:{SECRET}".encode()).decode()
    assert access.impersonation == (
        ("Impersonate-User", "robot"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("current-context: one", "current-context: gone", "no context 'gone'"),
        ("current-context: one", "", "names no current context"),
        ("cluster: here, user: me", "cluster: lost, user: me", "names the cluster 'lost'"),
        ("cluster: here, user: me", "cluster: here, user: lost", "names the user 'lost'"),
        ("https://here:6443/", "here:6443", "not an http\\(s\\) address"),
        ("certificate-authority: ca.crt", "certificate-authority: absent.crt", "absent.crt cannot be read"),
        ("certificate-authority: ca.crt", "certificate-authority-data: '%%'", "certificate authority .* not base64"),
        ("{token: hunter2", "{client-key-data: aGk=, token: hunter2", "without its key, or a key alone"),
        ("{token: hunter2", "{auth-provider: {name: gcp}, token: hunter2", "auth-provider"),
        ("{token: hunter2", "{as-user-extra: {a: [b]}, token: hunter2", "impersonates in a way"),
        ("{token: hunter2-do-not-show}", "{token: [hunter2-do-not-show]}", "is not understood"),
        ("{token: hunter2-do-not-show}", "{token: hunter2-do-not-show, {", "is not YAML at line 1[0-9]"),
        ("{token: hunter2-do-not-show}", "{tokenFile: *hunter2-do-not-show}", "is not YAML at line 1[0-9]"),
        ("{token: hunter2-do-not-show}", "{token: 2026-99-99}", "is not (YAML|understood)"),
    ],
)
def test_bad_kubeconfig_is_one_sentence_without_secrets(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in CONFIG
    with pytest.raises(ConfigError, match=said) as raised:
        read(tmp_path, CONFIG.replace(old, new))
    assert SECRET not in raised.value.message + raised.value.hint
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("text", ["[]", "just words", "clusters: {}", "42", "\tx: y", "users: [{user: {}}]"])
def test_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, text)


@pytest.mark.parametrize("length", range(0, CONFIG.index("- name: one") + 30, 13))
def test_file_cut_off_anywhere_is_refused_without_secrets(tmp_path: Path, length: int) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, CONFIG[:length])
    assert SECRET not in raised.value.message


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent does not exist"):
        read_access({}, kubeconfig=tmp_path / "absent")
    with pytest.raises(ConfigError, match="there is no kubeconfig"):
        read_access({"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_access({}, kubeconfig=tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not text"):
        read_access({}, kubeconfig=tmp_path / "binary")


def test_authority_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    access = read(tmp_path, CONFIG.replace("certificate-authority: ca.crt", "certificate-authority-data: aGVsbG8="))
    with pytest.raises(ConfigError, match="not a PEM certificate"):
        make_ssl_context(access)


def test_proxy_comes_from_the_environment_but_not_for_this_host_or_exceptions() -> None:
    environment = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "internal.example,.svc"}
    assert choose_proxy("https://api.example:6443", environment) == "http://proxy:3128"
    assert choose_proxy("https://internal.example:6443", environment) == ""
    assert choose_proxy("https://kubernetes.default.svc", environment) == ""
    assert choose_proxy("https://127.0.0.1:6443", environment) == ""
    assert choose_proxy("https://api.example", {}) == ""
    with pytest.raises(ConfigError, match="socks5"):
        choose_proxy("https://api.example", {"https_proxy": "socks5://u:secret@proxy"})


def test_access_does_not_show_its_secrets(tmp_path: Path) -> None:
    assert SECRET not in repr(read(tmp_path))
    assert SECRET not in repr(asyncio.run(read(tmp_path).credentials.fetch()))


def test_context_that_is_asked_for_comes_before_the_current_one_and_before_the_cluster(tmp_path: Path) -> None:
    home = tmp_path / ".kube"
    home.mkdir()
    path = write_config(home)
    in_pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(tmp_path)}
    assert read_access({}, kubeconfig=path, context="two").server == "https://there:6443"
    assert read_access(in_pod, context="two").server == "https://there:6443"
    with pytest.raises(ConfigError, match="no context 'absent'"):
        read_access({}, kubeconfig=path, context="absent")
