"""What packages hold beside the program is made from it, and can be read by what reads it."""

import gzip
import io
import json
import subprocess
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from release.archives import compress, make_tar, settle_tree
from release.chart import replace_line, set_image, set_versions
from release.contents import (
    COMMANDS,
    EXAMPLE_CONFIG,
    EXAMPLE_POLICY,
    HELPERS,
    load_command,
    read_scripts,
    render_completions,
    render_manual,
    render_polkit,
    render_programs,
)
from release.images import join_layouts
from release.manual import render_pages
from release.package import read_release, remove_release
from release.versions import format_debian, format_semantic
from schedkit.errors import NotFoundError
from schedkit.schedctl.config_file import FileSettings, parse_config
from schedkit.schedctl.group import schedctl
from schedkit.trust.policy import DEFAULT_POLICY
from schedkit.trust.policy_file import parse_policy

ROOT = Path(__file__).parents[3]


def test_every_program_has_a_command_for_its_manual() -> None:
    programs = COMMANDS.keys() | HELPERS
    assert read_scripts(ROOT).keys() == programs
    assert {f"usr/bin/{name}" for name in programs} == render_programs(read_scripts(ROOT), "3.13").keys()


def test_every_command_has_a_page_and_every_option_is_on_it() -> None:
    pages = {name: gzip.decompress(text).decode() for name, text in render_manual(0).items()}
    assert {f"usr/share/man/man1/schedctl-{name}.1.gz" for name in schedctl.help_lines} <= pages.keys()
    run = load_command("schedctl").get_command(click.Context(load_command("schedctl")), "run")  # type: ignore[attr-defined]
    options = {name for one in run.params if isinstance(one, click.Option) and not one.hidden for name in one.opts}
    page = pages["usr/share/man/man1/schedctl-run.1.gz"].replace("\\-", "-")
    assert {name for name in options if name not in page} == set()


def test_polkit_asks_an_administrator_before_it_runs_the_program_of_the_package() -> None:
    ((path, text),) = render_polkit().items()
    assert path.startswith("usr/share/polkit-1/actions/")
    action = ElementTree.fromstring(text).find("action")  # noqa: S314  (our own)
    assert action is not None
    assert path.endswith(f"/{action.get('id')}.policy")
    assert {one.tag: one.text for one in action.iterfind("defaults/*")} == {
        "allow_any": "auth_admin",
        "allow_inactive": "auth_admin",
        "allow_active": "auth_admin",
    }
    program = action.findtext("annotate[@key='org.freedesktop.policykit.exec.path']") or ""
    assert program.removeprefix("/") in render_programs(read_scripts(ROOT), "3.13")


def test_text_in_a_page_is_never_a_request() -> None:
    @click.command(epilog="'quoted' first")
    @click.option("--path", help=".hidden files, too; a \\ stays")
    def command() -> None:
        """.start with a dot."""

    page = render_pages(command, "tool", version="1", epoch=0)["tool.1"]
    assert "\n\\&.start with a dot" in page
    assert "\n\\&.hidden files, too; a \\e stays" in page
    assert "\n\\&\\(aqquoted\\(aq first" in page
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".B", ".BR", ".TP", ".PP", ".nf", ".fi"}


def test_completions_are_scripts_that_bash_can_read() -> None:
    scripts = render_completions()
    assert len(scripts) == 3 * len(COMMANDS)
    for name, script in scripts.items():
        if "bash" in name:
            subprocess.run(["bash", "-n"], input=script, check=True)


def test_example_policy_is_the_built_in_one() -> None:
    policy = parse_policy(EXAMPLE_POLICY.encode(), "policy.yaml", Path("/"))
    assert policy.rules == DEFAULT_POLICY.rules
    assert policy.allow_unsigned == DEFAULT_POLICY.allow_unsigned


def test_example_settings_are_settings() -> None:
    assert parse_config(EXAMPLE_CONFIG, "config.toml") == FileSettings()
    uncommented = EXAMPLE_CONFIG.replace("\n# ", "\n")
    assert parse_config(uncommented, "config.toml").trust_policy == "/etc/schedkit/policy.yaml"


@pytest.mark.parametrize(
    ("version", "debian", "semantic"),
    [
        ("1.2.3", "1.2.3+deb13", "1.2.3"),
        ("0.1.0.dev0", "0.1.0~dev0+deb13", "0.1.0-dev.0"),
        ("1.2.0rc1", "1.2.0~rc1+deb13", "1.2.0-rc.1"),
        ("1.2.3.post1", "1.2.3+post1+deb13", "1.2.3+post.1"),
    ],
)
def test_version_in_every_spelling(version: str, debian: str, semantic: str) -> None:
    assert (format_debian(version, 13), format_semantic(version)) == (debian, semantic)


def test_unusual_version_is_refused() -> None:
    with pytest.raises(ValueError, match="not a version"):
        format_debian("1.2.3+local", 13)


def test_archives_follow_from_their_contents() -> None:
    files = {"b": b"2", "a/c": b"1"}
    made = compress(make_tar(files, 5))
    assert made == compress(make_tar(dict(reversed(files.items())), 5))
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        assert [(one.name, one.mtime, one.mode, one.uid) for one in archive] == [
            ("a/c", 5, 0o644, 0),
            ("b", 5, 0o644, 0),
        ]


def test_tree_has_plain_modes_and_one_time(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir(mode=0o700)
    for name, mode in (("inner/file", 0o600), ("program", 0o711)):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(mode)
    settle_tree(tmp_path, 7)
    found = {str(path.relative_to(tmp_path)): path.stat() for path in tmp_path.rglob("*")}
    assert {name: oct(one.st_mode & 0o777) for name, one in found.items()} == {
        "inner": "0o755",
        "inner/file": "0o644",
        "program": "0o755",
    }
    assert {one.st_mtime for one in found.values()} == {7}


def test_chart_gets_the_released_image_and_version() -> None:
    values = (ROOT / "charts/sked/values.yaml").read_text()
    changed = set_image(values, "example.com:5000/sked:1.0", "sha256:abc")
    assert "\n  repository: example.com:5000/sked\n" in changed
    assert '\n  tag: "1.0"\n' in changed
    assert "\n  digest: sha256:abc\n" in changed
    assert "placeholder" not in changed.partition("imagePullSecrets")[0]
    about = set_versions((ROOT / "charts/sked/Chart.yaml").read_text(), "2.0.0rc1")
    assert "\nversion: 2.0.0-rc.1\nappVersion: 2.0.0rc1\n" in about


def test_line_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="not once"):
        replace_line("a: 1\n", "b: 1", "b: 2")


def test_images_of_two_platforms_become_one_index(tmp_path: Path) -> None:
    layouts = {}
    for architecture in ("arm64", "amd64"):
        layouts[architecture] = tmp_path / architecture
        (layouts[architecture] / "blobs/sha256").mkdir(parents=True)
        (layouts[architecture] / "blobs/sha256" / architecture).write_text("{}")
        entry = {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": f"sha256:{architecture}",
            "size": 2,
        }
        (layouts[architecture] / "index.json").write_text(json.dumps({"manifests": [entry]}))
    files, digest = join_layouts(layouts, "example.com/sked:1")
    (top,) = json.loads(files["index.json"])["manifests"]
    assert top["digest"] == digest
    index = json.loads(files[f"blobs/sha256/{digest.removeprefix('sha256:')}"])
    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["amd64", "arm64"]
    assert {"blobs/sha256/amd64", "blobs/sha256/arm64"} <= files.keys()


def test_release_knows_its_commit_and_gives_way_to_the_next(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no release"):
        read_release(tmp_path)
    (tmp_path / "old.deb").write_text("x")
    (tmp_path / "mine.txt").write_text("x")
    (tmp_path / "SHA256SUMS").write_text(f"# commit abc\n{'0' * 64}  old.deb\n")
    assert read_release(tmp_path) == ("abc", ["old.deb"])
    remove_release(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
