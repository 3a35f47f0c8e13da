from pathlib import Path

import pytest

from schedkit.errors import BadDataError, UsageError
from schedkit.schedctl.settings import Flags, Settings, read_settings

FULL = """
driver = "docker"
catalogs = ["https://example.com/catalog.json"]
insecure-registries = ["registry.lan:5000"]
ca-file = "/etc/ssl/our.pem"
trust-policy = "/etc/schedkit/policy.yaml"

[mirrors]
"ghcr.io" = ["mirror.lan"]
"""


def read(folder: Path, flags: Flags | None = None, user: str = "", system: str = "", **variables: str) -> Settings:
    """From two files in a folder; an empty text means no file."""
    (folder / "schedkit").mkdir(exist_ok=True)
    for path, text in ((folder / "schedkit/config.toml", user), (folder / "system.toml", system)):
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text)
    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), **variables}
    return read_settings(flags or Flags(), environ, folder / "system.toml")


def test_nothing_said_means_auto_and_a_cache_below_home(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert (settings.driver, settings.sockets, settings.catalogs, settings.allow_unsigned) == ("auto", {}, (), False)
    assert settings.cache == tmp_path / ".cache/schedkit"
    assert read(tmp_path, XDG_CACHE_HOME="/var/cache").cache == Path("/var/cache/schedkit")
    assert read(tmp_path, XDG_CACHE_HOME="relative").cache == tmp_path / ".cache/schedkit"


def test_paths_in_a_file_start_at_its_folder_wherever_the_command_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    catalogs = 'catalogs = ["ours.json", "/etc/theirs.json", "https://example.com/catalog.json"]\n'
    settings = read(tmp_path, system=f'trust-policy = "policy.yaml"\nca-file = "../ca.pem"\n{catalogs}')
    assert settings.catalogs == (f"{tmp_path}/ours.json", "/etc/theirs.json", "https://example.com/catalog.json")
    assert settings.trust_policy == f"{tmp_path}/policy.yaml"
    assert settings.ca_file == f"{tmp_path}/../ca.pem"


def test_a_file_says_everything_there_is_to_say(tmp_path: Path) -> None:
    settings = read(tmp_path, system=FULL)
    assert settings.driver == "docker"
    assert settings.catalogs == ("https://example.com/catalog.json",)
    assert settings.insecure_registries == {"registry.lan:5000"}
    assert settings.mirrors == {"ghcr.io": ("mirror.lan",)}
    assert (settings.ca_file, settings.trust_policy) == ("/etc/ssl/our.pem", "/etc/schedkit/policy.yaml")


def test_the_nearest_to_the_user_counts(tmp_path: Path) -> None:
    system, user = 'driver = "docker"', 'driver = "podman"'
    assert read(tmp_path, system=system).driver == "docker"
    assert read(tmp_path, system=system, user=user).driver == "podman"
    assert read(tmp_path, system=system, user=user, SCHEDCTL_DRIVER="containerd").driver == "containerd"
    assert read(tmp_path, Flags(driver="auto"), user=user, SCHEDCTL_DRIVER="containerd").driver == "auto"


def test_catalogs_add_up_the_nearest_first(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        Flags(catalogs=("flag",)),
        user='catalogs = ["user"]',
        system='catalogs = ["system"]',
        SCHEDCTL_CATALOG="one, two",
    )
    assert settings.catalogs == ("flag", "one", "two", f"{tmp_path}/schedkit/user", f"{tmp_path}/system")


@pytest.mark.parametrize(("said", "meant"), [("1", True), ("true", True), ("0", False), ("", False), ("no", False)])
def test_consent_from_the_environment_is_read_as_a_word(tmp_path: Path, said: str, meant: bool) -> None:
    assert read(tmp_path, SCHEDCTL_ALLOW_UNSIGNED=said).allow_unsigned is meant


def test_consent_that_is_neither_yes_nor_no_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SCHEDCTL_ALLOW_UNSIGNED is 'maybe'"):
        read(tmp_path, SCHEDCTL_ALLOW_UNSIGNED="maybe")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('\n\ndirver = "podman"\n', r"config\.toml, line 3: dirver: unknown key"),
        ('driver = "lxc"', r"config\.toml, line 1: driver: unknown driver 'lxc'"),
        ('socket = "/run/x.sock"', r"line 1: socket: does not say which runtime"),
        ("driver = 5", r"line 1: driver: must be a text"),
        ('catalogs = "x"', r"line 1: catalogs: must be a list of texts"),
        ("catalogs = [1]", r"line 1: catalogs: must be a list of texts"),
        ('# first\nmirrors = "x"', r"line 2: mirrors: must be a table"),
        ('[mirrors]\n"ghcr.io" = "x"', r"line 2: ghcr\.io: must be a list of texts"),
        ('[mirrors]\n"ghcr.io" = ["mirror:bad:1"]', r"line 2: ghcr\.io: 'mirror:bad:1' is not a mirror"),
        ('[mirrors]\n"a" = ["m"]\n"b" = ["m", "https://m"]', r"line 3: b: 'https://m' is not a mirror"),
        ('[mirrors]\n"ghcr.io" = ["mirror.lan/Ghcr"]', r"line 2: ghcr\.io: 'mirror\.lan/Ghcr' is not a mirror"),
        ('[mirrors]\n"ghcr.io" = ["mirror.lan:65536"]', r"line 2: ghcr\.io: 'mirror\.lan:65536' is not a mirror"),
        ('[mirrors]\n"ghcr.io" = ["[1:2]"]', r"line 2: ghcr\.io: '\[1:2\]' is not a mirror"),
        ('[mirrors]\n"https://ghcr.io" = ["m"]', r"line 2: https://ghcr\.io: is not a registry"),
        ('insecure-registries = ["http://a"]', r"line 1: insecure-registries: 'http://a' is not a registry"),
        ("[unknown]\nkey = 1", r"line 1: unknown: unknown key"),
        (f"driver = {'[' * 100_000}", r"config\.toml: nested too deeply"),
        ('driver = "podman', r"config\.toml: not TOML: .*line 1"),
    ],
)
def test_a_wrong_file_is_one_complaint_with_file_line_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadDataError, match=complaint):
        read(tmp_path, user=text)


@pytest.mark.parametrize("mirror", ["mirror.lan", "mirror.lan:5000/ghcr/io", "mirror/", "[::1]:5000", "Mirror.LAN"])
def test_a_mirror_is_a_host_with_a_port_and_a_path_if_it_needs_them(tmp_path: Path, mirror: str) -> None:
    assert read(tmp_path, user=f'[mirrors]\n"ghcr.io" = ["{mirror}"]').mirrors == {"ghcr.io": (mirror,)}


def test_a_file_of_bytes_that_are_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadDataError, match="not UTF-8"):
        read_settings(Flags(), {"HOME": str(tmp_path)}, path)


def test_socket_without_driver_says_nothing_about_which_runtime_it_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--socket"):
        read(tmp_path, Flags(socket="/run/x.sock"))
    assert read(tmp_path, Flags(socket="/run/x.sock", driver="docker")).sockets == {"docker": "/run/x.sock"}


def test_a_files_socket_is_that_of_the_driver_it_names_whichever_the_user_chooses(tmp_path: Path) -> None:
    file = 'driver = "containerd"\nsocket = "/run/k3s.sock"'
    sockets = {"containerd": "/run/k3s.sock"}
    assert read(tmp_path, system=file).sockets == sockets
    assert read(tmp_path, SCHEDCTL_DRIVER="auto", system=file).sockets == sockets
    assert read(tmp_path, Flags(driver="docker"), system=file).sockets == sockets
    both = read(tmp_path, Flags(driver="docker", socket="/run/x.sock"), system=file)
    assert both.sockets == sockets | {"docker": "/run/x.sock"}


def test_the_nearest_file_names_a_drivers_socket(tmp_path: Path) -> None:
    user, system = (f'driver = "docker"\nsocket = "/run/{name}.sock"' for name in ("user", "system"))
    assert read(tmp_path, user=user, system=system).sockets == {"docker": "/run/user.sock"}
