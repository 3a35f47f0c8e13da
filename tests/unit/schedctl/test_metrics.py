"""The kernel's slot for Prometheus: printed once, and served."""

import http.client
import socket
import threading
from pathlib import Path

import pytest

from schedkit.errors import SchedkitError
from schedkit.schedctl.commands.metrics import make_server, read_metrics
from schedkit.schedctl.group import schedctl
from tests.unit.kernel.roots import ATTACHED, write_files, write_sched_ext
from tests.unit.schedctl.runner import make_runner


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, {"proc/sys/kernel/osrelease": "6.12.107"})
    return write_sched_ext(tmp_path, ATTACHED)


def test_metrics_tell_state_name_and_release(root: Path) -> None:
    said = read_metrics(root)
    assert 'sched_ext_state{state="enabled"} 1\n' in said
    assert 'sched_ext_info{ops="schedkit_fifo",release="6.12.107"} 1\n' in said
    assert said.endswith("# EOF\n")


def test_command_prints_them() -> None:
    result = make_runner().invoke(schedctl, ["metrics"], standalone_mode=False)
    assert result.stdout.startswith("# TYPE sched_ext_state gauge\n")


def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return answer.status, answer.headers["Content-Type"], said


def test_server_looks_again_each_time(root: Path) -> None:
    with make_server("127.0.0.1:0", root) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = int(server.server_address[1])
        status, kind, said = ask(port, "/metrics")
        assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
        assert 'sched_ext_state{state="enabled"} 1' in said
        (root / "sys/kernel/sched_ext/state").write_text("disabling\n")
        assert 'sched_ext_state{state="disabling"} 1' in ask(port, "/metrics")[2]
        assert ask(port, "/")[0] == 404
        server.shutdown()


def test_port_alone_listens_on_all_addresses(root: Path) -> None:
    with make_server(":0", root) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hosts = ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])]
        assert [ask(int(server.server_address[1]), "/metrics", host)[0] for host in hosts] == [200] * len(hosts)
        server.shutdown()


@pytest.mark.parametrize("listen", ["", "9440", ":", ":x", "127.0.0.1:", "127.0.0.1:65536", "a b:1", "256.0.0.1:9"])
def test_wrong_address_is_told(listen: str, root: Path) -> None:
    with pytest.raises(SchedkitError):
        make_server(listen, root)
