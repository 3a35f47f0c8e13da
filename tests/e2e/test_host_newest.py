"""On a kernel whose BTF is malformed: what a real scheduler says there, and what we make of it."""

import pytest

from lab.machine import Machine
from tests.e2e.test_host import play, prepared

__all__ = ["prepared"]
pytestmark = pytest.mark.parametrize("machine", ["newest"], indirect=True, scope="module")


def test_malformed_btf_is_named_as_the_reason(machine: Machine) -> None:
    refused, status = play(machine, "run scx_rusty:latest", "status")
    assert (refused["error"], refused["code"]) == ("Rejected", 11)
    assert "func_proto incompatible with vmlinux" in refused["message"]
    assert "func_proto" in "".join(refused["log"])
    assert refused["hint"]
    assert (status["summary"], status["managed"]) == ("idle", [])
