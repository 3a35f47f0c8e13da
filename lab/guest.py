"""Commands and files in a guest, over ssh on loopback with one shared connection."""

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.errors import GuestError
from lab.process import Result

CONNECTION_FAILED = 255


@dataclass(frozen=True)
class Guest:
    """How to reach a guest: everything ssh needs is in one configuration file."""

    configuration: Path
    name: str = "guest"

    @classmethod
    def configure(cls, folder: Path, sockets: Path, *, port: int, key: Path) -> "Guest":
        """Write the ssh configuration of a guest that listens on a port of this host's loopback."""
        configuration = folder / "ssh_config"
        # The host key is not compared: the port is on loopback and belongs to a qemu that we started.
        configuration.write_text(
            f"Host guest\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {key}\n"
            "  IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
            f"  ControlMaster auto\n  ControlPath {sockets}/ssh\n  ControlPersist yes\n"
            "  ConnectTimeout 10\n  ServerAliveInterval 15\n"
        )
        return cls(configuration)

    def run(
        self, command: str, *, check: bool = True, input: str | bytes | None = None, timeout: float = 60.0
    ) -> Result:
        """Run a shell command in the guest; unless `check` is off, one that fails is an error that shows its words."""
        result = self._ssh(["-T", self.name, command], input, timeout)
        if result.code == CONNECTION_FAILED:
            raise GuestError(f"the guest cannot be reached: {result.stderr.strip()}")
        if check and result.code:
            said = result.stderr.strip() or result.stdout.strip()
            raise GuestError(f"in the guest, `{command}` ended with status {result.code}: {said}")
        return result

    def put(self, local: Path, remote: str) -> None:
        """Copy a file or a folder into the guest, to exactly `remote`."""
        if local.is_dir():
            packed = subprocess.run(["tar", "-C", str(local), "-cf", "-", "."], capture_output=True, check=True).stdout
            self.run(f"mkdir -p {shlex.quote(remote)} && tar -C {shlex.quote(remote)} -xf -", input=packed, timeout=300)
        else:
            self.write(remote, local.read_bytes(), mode=local.stat().st_mode & 0o777)

    def write(self, remote: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file in the guest, whole or not at all."""
        path = shlex.quote(remote)
        new = f"{path}.new"
        self.run(
            f"mkdir -p $(dirname {path}) && (umask 077; cat >{new}) && chmod {mode:o} {new} && mv {new} {path}",
            input=content,
        )

    def get(self, remote: str, local: Path) -> None:
        """Copy a file out of the guest."""
        local.write_bytes(self.read(remote))

    def read(self, remote: str) -> bytes:
        """The content of a file in the guest."""
        command = ["ssh", "-F", str(self.configuration), "-T", self.name, f"cat {shlex.quote(remote)}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise GuestError(f"cannot read {remote} in the guest: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def shell_command(self, arguments: list[str]) -> list[str]:
        """The command line of an interactive shell in the guest, or of one command there."""
        return ["ssh", "-F", str(self.configuration), self.name, *arguments]

    def disconnect(self) -> None:
        """End the shared connection, if there is one."""
        self._ssh(["-O", "exit", self.name], None, 10)

    def _ssh(self, arguments: list[str], input: str | bytes | None, timeout: float) -> Result:
        content = input.encode() if isinstance(input, str) else input
        try:
            done = subprocess.run(
                ["ssh", "-F", str(self.configuration), *arguments],
                input=content if content is not None else b"",
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise GuestError(f"no answer from the guest in {timeout:.0f} s: {arguments[-1]}") from error
        return Result(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.returncode)
