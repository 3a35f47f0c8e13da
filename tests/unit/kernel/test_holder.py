"""Who holds the slot, on made-up roots; tests/e2e/test_kernel.py finds the holders of real containers."""

import errno
from pathlib import Path

import pytest

from schedkit.kernel.bpf import Link
from schedkit.kernel.holder import Holder, describe_holder, parse_container, parse_pod, read_holder
from schedkit.unknown import Unknown
from tests.unit.kernel.roots import ATTACHED, FREE, write_process, write_sched_ext
from tests.unit.kernel.structops import MadeUpStructOps, make_value

ID = "479b54dbc50d83ff805ba4a4acb27feef7b598d215e2c00d0e774ad8fd406140"
LINK = "anon_inode:bpf_link"
MAP = "anon_inode:bpf-map"


def describe_link(link: int, map_id: int) -> str:
    return f"pos:\t0\nflags:\t02000000\nlink_type:\tstruct_ops\nlink_id:\t{link}\nmap_id:\t{map_id}"


def describe_map(map_id: int) -> str:
    return f"pos:\t0\nmap_type:\t26\nkey_size:\t4\nmap_id:\t{map_id}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_sched_ext(tmp_path, ATTACHED)
    write_process(tmp_path, 1, "init", files={"/dev/console": "pos:\t0"})
    return tmp_path


def test_holder_is_the_process_with_the_link_of_the_attached_scheduler(root: Path) -> None:
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})
    write_process(root, 324, "scx_fifo", f"0::/libpod_parent/libpod-{ID}", {LINK: describe_link(1, 4)})

    assert read_holder(root, struct_ops=kernel) == Holder(324, "scx_fifo", 1, ID, driver="podman")


def test_holder_outside_of_any_container_is_of_its_service(root: Path) -> None:
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})
    write_process(root, 324, "scx_fifo", "0::/system.slice/scx_loader.service", {LINK: describe_link(1, 4)})

    holder = read_holder(root, struct_ops=kernel)
    assert holder == Holder(324, "scx_fifo", 1, unit="scx_loader.service")
    assert describe_holder(holder) == "by process 324 (scx_fifo) of scx_loader.service"


@pytest.mark.parametrize(
    "cgroup", ["0::/", "0::/user.slice/user-0.slice/session-1.scope", "0::/user.slice/user@0.service/app.slice/x.scope"]
)
def test_holder_that_a_person_started_is_of_no_service(root: Path, cgroup: str) -> None:
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})
    write_process(root, 324, "scx_fifo", cgroup, {LINK: describe_link(1, 4)})

    assert read_holder(root, struct_ops=kernel) == Holder(324, "scx_fifo", 1)


def test_link_of_a_congestion_control_is_not_taken(root: Path) -> None:
    kernel = MadeUpStructOps([Link(1, 4), Link(2, 5)], {4: make_value("schedkit_fifo"), 5: make_value("bpf_cubic")})
    write_process(root, 200, "netd", files={LINK: describe_link(2, 5)})
    write_process(root, 324, "scx_fifo", files={LINK: describe_link(1, 4)})

    assert read_holder(root, struct_ops=kernel) == Holder(324, "scx_fifo", 1)


@pytest.mark.parametrize("other", ["fifo", "my_schedkit_fifo", "schedkit_fifo2", "0000schedkit_fifo"])
def test_name_is_compared_whole(root: Path, other: str) -> None:
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value(other)})
    write_process(root, 324, "other", files={LINK: describe_link(1, 4)})

    assert read_holder(root, struct_ops=kernel) is None


def test_of_two_links_with_the_name_the_newer_is_in_the_slot(root: Path) -> None:
    value = make_value("schedkit_fifo")
    kernel = MadeUpStructOps([Link(3, 6), Link(1, 4), Link(2, 0)], {4: value, 6: value})
    write_process(root, 300, "ejected", files={LINK: describe_link(1, 4)})
    write_process(root, 324, "scx_fifo", files={LINK: describe_link(3, 6)})

    assert read_holder(root, struct_ops=kernel) == Holder(324, "scx_fifo", 3)


def test_scheduler_attached_without_a_link_is_held_by_the_process_with_its_map(root: Path) -> None:
    kernel = MadeUpStructOps([], {4: make_value("schedkit_fifo"), 5: make_value("bpf_cubic")})
    write_process(root, 200, "netd", files={MAP: describe_map(5)})
    write_process(root, 324, "scx_fifo", files={MAP: describe_map(4)})

    assert read_holder(root, struct_ops=kernel) == Holder(324, "scx_fifo", None)


def test_pinned_link_has_no_holder(root: Path) -> None:
    assert read_holder(root, struct_ops=MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})) is None


def test_holder_outside_of_what_this_process_can_see_is_unknown(root: Path) -> None:
    (root / "proc/1/ns").mkdir()
    (root / "proc/1/ns/pid").symlink_to("pid:[4026532211]")
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})

    assert read_holder(root, struct_ops=kernel) == Unknown("this process does not see the host's processes")


def test_process_whose_files_cannot_be_read_leaves_it_unknown(root: Path) -> None:
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})
    write_process(root, 324, "scx_fifo", files={LINK: describe_link(1, 4)})
    (root / "proc/324/fdinfo/0").unlink()
    (root / "proc/324/fdinfo/0").mkdir()

    assert read_holder(root, struct_ops=kernel) == Unknown(f"{root}/proc/324/fdinfo/0: Is a directory")


def test_container_of_a_process_whose_cgroup_cannot_be_read_is_unknown(root: Path) -> None:
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})
    write_process(root, 324, "scx_fifo", files={LINK: describe_link(1, 4)})
    cgroup = root / "proc/324/cgroup"
    cgroup.unlink()
    assert read_holder(root, struct_ops=kernel) == Holder(324, "scx_fifo", 1, Unknown(f"{cgroup} is not there"))

    cgroup.mkdir()
    holder = read_holder(root, struct_ops=kernel)
    assert holder == Holder(324, "scx_fifo", 1, Unknown(f"{cgroup}: Is a directory"))
    assert "whether it is in a container could not be read" in describe_holder(holder)


@pytest.mark.parametrize("files", [FREE, None])
def test_free_slot_has_no_holder(tmp_path: Path, files: dict[str, str] | None) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    if files:
        write_sched_ext(tmp_path, files)

    assert read_holder(tmp_path, struct_ops=MadeUpStructOps(refusal=errno.EPERM)) is None


def test_refused_call_is_unknown(root: Path) -> None:
    assert read_holder(root, struct_ops=MadeUpStructOps(refusal=errno.EPERM)) == Unknown(
        "only root can ask the kernel for its BPF links"
    )
    assert read_holder(root, struct_ops=MadeUpStructOps(refusal=errno.ENOSYS)) == Unknown(
        "bpf(2): Function not implemented"
    )


def test_unreadable_state_is_unknown(tmp_path: Path) -> None:
    assert isinstance(read_holder(tmp_path, struct_ops=MadeUpStructOps()), Unknown)


def test_root_without_proc_is_unknown(tmp_path: Path) -> None:
    write_sched_ext(tmp_path, ATTACHED)
    (tmp_path / "proc").mkdir()
    kernel = MadeUpStructOps([Link(1, 4)], {4: make_value("schedkit_fifo")})

    assert read_holder(tmp_path, struct_ops=kernel) == Unknown(f"{tmp_path}/proc is not mounted")


@pytest.mark.parametrize(
    ("cgroup", "driver", "container"),
    [
        (f"0::/libpod_parent/libpod-{ID}", "podman", ID),
        (f"0::/machine.slice/libpod-{ID}.scope/container", "podman", ID),
        (f"0::/machine.slice/libpod-{ID}.scope", "podman", ID),
        (f"0::/docker/{ID}", "docker", ID),
        (f"0::/system.slice/docker-{ID}.scope", "docker", ID),
        ("0::/schedkit/scx_rusty-1", "containerd", "scx_rusty-1"),
        (f"0::/kubepods/besteffort/pod1b2c/{ID}", None, ID),
        (f"0::/kubepods.slice/kubepods-pod1b2c.slice/cri-containerd-{ID}.scope", "containerd", ID),
        (f"12:cpu:/docker/{ID}\n1:name=systemd:/docker/{ID}", "docker", ID),
        (f"0::/docker/{ID}/init", "docker", ID),
        ("0::/", None, None),
        ("0::/init.scope", None, None),
        ("0::/system.slice/scx.service", None, None),
        ("0::/user.slice/user-1000.slice/session-3.scope", None, None),
        (f"0::/machine.slice/libpod-conmon-{ID}.scope", None, None),
        ("", None, None),
        ("garbage", None, None),
    ],
)
def test_container_in_a_cgroup(cgroup: str, driver: str | None, container: str | None) -> None:
    assert parse_container(cgroup) == (driver, container)


UID = "0f6a7c1e-9a1b-4c57-8c0a-3c1a2b3c4d5e"


@pytest.mark.parametrize(
    ("cgroup", "pod"),
    [
        (f"0::/kubepods/burstable/pod{UID}/{ID}", UID),
        (f"0::/kubepods/pod{UID}/{ID}", UID),
        (
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice/"
            f"cri-containerd-{ID}.scope",
            UID,
        ),
        (f"12:cpu:/kubepods-pod{UID.replace('-', '_')}.slice:cri-containerd:{ID}\n0::/", UID),
        (
            f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice/"
            f"cri-containerd-{ID}.scope",
            UID,
        ),
        (f"0::/kubepods/besteffort/pod{'a1' * 16}/{ID}", "a1" * 16),  # a static pod's
        (f"0::/kubelet/kubepods/besteffort/what/{ID}", "?"),
        (f"0::/machine.slice/libpod-{ID}.scope/container", None),
        (f"0::/system.slice/podman-{UID}.service", None),
        ("", None),
    ],
)
def test_pod_in_a_cgroup(cgroup: str, pod: str | None) -> None:
    assert parse_pod(cgroup) == pod
