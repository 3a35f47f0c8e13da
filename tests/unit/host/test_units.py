"""The units' text, as systemd reads it in tests/e2e/test_lasting.py."""

from pathlib import Path

import pytest

from schedkit.errors import BadDataError
from schedkit.host.units import (
    ENABLED,
    RERUN,
    Choice,
    is_at_boot,
    is_running,
    parse_choice,
    quote,
    read_choice,
    render_unit,
)
from schedkit.unknown import Unknown

CHOICE = Choice(
    scheduler="scx_rusty",
    image="ghcr.io/schedkit/scx_rusty:latest",
    digest="sha256:" + "1" * 64,
    driver="podman",
    socket="/run/podman/podman.sock",
    verified="key SHA256:x (/etc/key.pub)",
    restart="on-failure:5",
)
FULL = CHOICE._replace(
    args=("--slice", 'a "b" \\ $HOME %h\n[Service]\nExecStart=/bin/false', "ü"),
    mode="gaming",
    name="mine",
    env={"A": "b=c"},
    host_network=True,
    unprivileged=True,
    timeout=7.5,
    trust_policy="/etc/policy.yaml",
    allow_unsigned=True,
    insecure_registries=("localhost:5000",),
    cache="/root/.cache/schedkit",
)


@pytest.mark.parametrize("choice", [CHOICE, FULL])
@pytest.mark.parametrize("unit", [ENABLED, RERUN])
def test_choice_is_read_back_from_the_unit(choice: Choice, unit: str) -> None:
    assert parse_choice(render_unit(choice, ["/usr/bin/schedctl"], unit), unit) == choice


def test_what_a_scheduler_is_given_adds_no_line_to_its_unit() -> None:
    plain, full = (render_unit(one, ["/usr/bin/schedctl"], ENABLED).splitlines() for one in (CHOICE, FULL))
    assert [line for line in full if line not in plain and not line.startswith("Choice=")] == []
    assert len(full) == len(plain)
    assert full[-1].isascii()
    assert not full[-1].endswith("\\")


def test_unit_starts_after_its_runtime_and_at_boot_only_if_enabled() -> None:
    enabled, rerun = (render_unit(CHOICE, ["/opt/a b/schedctl"], unit) for unit in (ENABLED, RERUN))
    assert "\nAfter=podman.socket\n" in enabled
    assert "BindsTo" not in enabled
    assert '\nExecStart="/opt/a b/schedctl" service schedkit.service\n' in enabled
    assert "\n[Install]\nWantedBy=multi-user.target\n" in enabled
    assert "[Install]" not in rerun
    docker = render_unit(CHOICE._replace(driver="docker", verified="unsigned-allowed"), ["/x"], ENABLED)
    assert "\nAfter=docker.service network-online.target\n" in docker


def test_limit_follows_from_the_restart_policy() -> None:
    limited, endless = (
        render_unit(CHOICE._replace(restart=one), ["/x"], RERUN) for one in ("on-failure:2", "on-failure")
    )
    assert "\nStartLimitIntervalSec=360\nStartLimitBurst=3\n" in limited
    assert "\nStartLimitIntervalSec=0\n" in endless
    assert ("\nRestartSec=1\n" in limited, "\nRestartSec=5\n" in endless) == (True, True)
    assert "Burst" not in endless


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("a b", '"a b"'),
        ("%h", "%%h"),
        ("$HOME", "$$HOME"),
        ('say "so"', '"say \\"so\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("it's", '"it\'s"'),
        (";", '";"'),
    ],
)
def test_words_mean_themselves_to_systemd(word: str, quoted: str) -> None:
    assert quote(word) == quoted


@pytest.mark.parametrize(
    "text",
    [
        "[Service]\nExecStart=/bin/true\n",
        "[X-Schedkit]\nChoice=\n",
        "[X-Schedkit]\nChoice=[]\n",
        '[X-Schedkit]\nChoice={"scheduler": "x"}\n',
        render_unit(CHOICE, ["/x"], ENABLED).replace('"podman"', "7"),
        render_unit(CHOICE, ["/x"], ENABLED).replace("on-failure:5", "sometimes"),
        render_unit(FULL, ["/x"], ENABLED).replace('"args": [', '"args": [7, '),
        render_unit(FULL, ["/x"], ENABLED).replace('"host_network": true', '"host_network": "yes"'),
        render_unit(CHOICE, ["/x"], ENABLED).replace('"driver"', '"unknown"'),
    ],
)
def test_unit_that_makes_no_sense_is_unknown_not_absent(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadDataError) as raised:
        parse_choice(text, "the unit")
    assert "schedctl enable" in raised.value.hint
    path = tmp_path / "etc/systemd/system/schedkit.service"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert isinstance(read_choice(tmp_path, ENABLED), Unknown)
    path.write_bytes(b"\xff\xfe")
    assert isinstance(read_choice(tmp_path, ENABLED), Unknown)
    path.unlink()
    assert read_choice(tmp_path, ENABLED) is None
    path.mkdir()
    assert isinstance(read_choice(tmp_path, ENABLED), Unknown)


def test_files_tell_whether_a_unit_starts_at_boot_and_runs(tmp_path: Path) -> None:
    assert not is_at_boot(tmp_path)
    assert not is_running(tmp_path, ENABLED)
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / ENABLED).symlink_to("/nowhere")
    (tmp_path / "sys/fs/cgroup/system.slice" / ENABLED).mkdir(parents=True)
    assert is_at_boot(tmp_path)
    assert is_running(tmp_path, ENABLED)
    assert not is_running(tmp_path, RERUN)
