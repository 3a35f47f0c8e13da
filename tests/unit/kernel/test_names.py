"""Names of schedulers against ops names that their sources, or kernels that ran them, showed."""

import pytest

from schedkit.kernel.names import is_same_scheduler


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("scx_rusty", "rusty"),
        ("scx_rusty", "scx_rusty"),
        ("rusty", "rusty"),
        ("scx_rusty", "rusty_1.1.4_x86_64_unknown_linux_gnu"),
        ("scx_cosmos", "cosmos_1.0.5_g85f140fd_x86_64_unknown_linux_gnu"),
        ("scx_cosmos", "cosmos_1.0.5_g85f140fd_dirty_aarch64_unknown_linux_musl"),
        ("scx_bpfland", "bpfland_1.0.10_rc.1_x86_64_unknown_linux_gnu"),
        ("scx_flow", "scx_flow"),
        ("scx_flow", "scx_flow_2.2.5_x86_64_unknown_linux_gnu"),
        ("scx_flow", "flow"),
        ("scx_simple", "simple"),
        ("scx_p2dq", "p2dq_1.0.19_x86_64_unknown_linux_gnu"),
        ("scx_layered", "layered_1.0.12_g85f140fd_x86_64_unknown_linux_gnu"),
        ("gthulhu", "goland"),
        ("gthulhu", "gthulhu"),
        ("scx_my-own", "my_own"),
    ],
)
def test_same(name: str, ops: str) -> None:
    assert is_same_scheduler(name, ops)


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("scx_rusty", "rustland"),
        ("scx_rust", "rusty"),
        ("scx_rusty", "rust"),
        ("scx_rusty", "rusty_ng"),
        ("scx_rusty", "rusty_ng_1.1.4_x86_64_unknown_linux_gnu"),
        ("scx_rusty", "rusty_2"),
        ("scx_p2dq", "p2dq2"),
        ("scx_fifo", "schedkit_fifo"),
        ("scx_rustland", "goland"),
        ("scx_", ""),
        ("", "rusty"),
        ("", ""),
    ],
)
def test_different(name: str, ops: str) -> None:
    assert not is_same_scheduler(name, ops)
