import pytest

from lab import host, kernels
from schedkit.errors import NoPermissionError, UnavailableError, UsageError


def test_not_root_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NoPermissionError, match="needs root"):
        host.check_host()


def test_missing_programs_are_named_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnavailableError, match="missing on this host: debootstrap, openssh-client") as caught:
        host.check_host()
    assert caught.value.hint.startswith("apt-get install debootstrap")


def test_unknown_kernel_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        kernels.find_kernel("5.10")
    assert caught.value.hint == "choose one of 6.12, 6.18, newest"
