"""A real Kubernetes control plane, as plain processes on this host's loopback."""

import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from lab import components, https, pki
from lab.addresses import choose_free_ports
from lab.components import API_SERVER, COMPONENTS, CONTROLLER_MANAGER, ETCD, SCHEDULER, Plane
from lab.errors import LabError
from lab.kube import Binaries
from lab.process import Daemon, Result
from lab.store import remove_tree
from lab.waiting import NotYetError, wait_for

READY_SECONDS = 60.0
PROBE_SECONDS = 3.0  # who does not respond by then may be a stranger on a port that we lost
ATTEMPTS = 5
HEALTH = {ETCD: "/health", API_SERVER: "/readyz", CONTROLLER_MANAGER: "/healthz", SCHEDULER: "/healthz"}


class KubectlError(LabError):
    """kubectl failed or did not come to an end."""

    reason = "KubectlFailed"


class PortTakenError(LabError):
    """Somebody took a port between our choosing it and a component's listening on it."""

    reason = "PortTaken"


def choose_ports() -> dict[str, int]:
    """A port for each component; one that is lost before its component listens shows in that one's log."""
    return dict(zip(COMPONENTS, choose_free_ports(len(COMPONENTS)), strict=True))


class Cluster:
    """One control plane in one folder, which says all there is to know about it: any process can open it again."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.folder = plane.folder
        self.seconds_to_ready = 0.0  # what the last start took

    @classmethod
    def start(
        cls, folder: Path, binaries: Binaries, *, choose_ports: Callable[[], Mapping[str, int]] = choose_ports
    ) -> "Cluster":
        """Make a cluster in an empty folder and wait until it is ready."""
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (folder / "cluster.json").exists():
            raise LabError(f"there is a cluster in {folder} already", hint="open it, or delete the folder")
        (folder / "pki").mkdir(exist_ok=True, mode=0o700)
        components.write_certificates(folder / "pki")
        for _ in range(ATTEMPTS - 1):
            with suppress(PortTakenError):
                return cls._start_once(Plane(folder, binaries, choose_ports()))
        return cls._start_once(Plane(folder, binaries, choose_ports()))

    @classmethod
    def open(cls, folder: Path) -> "Cluster":
        """The cluster that some process has started in a folder, running or not."""
        return cls(_read_plane(folder.absolute()))

    @property
    def api_port(self) -> int:
        return self.plane.ports[API_SERVER]

    @property
    def admin_kubeconfig(self) -> Path:
        return self.plane.kubeconfig("admin")

    @property
    def ca_certificate(self) -> str:
        return (self.plane.pki / "ca.crt").read_text()

    def alive(self) -> bool:
        """Whether all its processes run."""
        return all(self._daemon(component).alive() for component in COMPONENTS)

    def start_again(self) -> None:
        """Start what does not run, on the same ports and with the same data, and wait until all is ready."""
        started = time.monotonic()
        # The controller manager gives up when the API server does not respond soon: it starts only when that does.
        for component in COMPONENTS:
            if not self._daemon(component).alive():
                self._spawn(component)
            if component == API_SERVER:
                self._wait_healthy(component)
        for component in COMPONENTS:
            self._wait_healthy(component)
        wait_for("the default service account", self._has_default_account, READY_SECONDS)
        self.seconds_to_ready = time.monotonic() - started

    def stop(self) -> None:
        """End all its processes; the data stays."""
        for component in (SCHEDULER, CONTROLLER_MANAGER):
            self._daemon(component).terminate()  # the two end side by side
        for component in reversed(COMPONENTS):
            self.stop_component(component)

    def restart(self) -> None:
        """Stop and start again: same data, same ports."""
        self.stop()
        self.start_again()

    def wipe_etcd(self) -> None:
        """Lose everything but the identity: an empty cluster on the same ports, which its nodes can join again."""
        self.stop()
        remove_tree(self.folder / "etcd")
        self.start_again()

    def stop_component(self, component: str) -> None:
        """End one process."""
        self._daemon(component).stop()

    def start_component(self, component: str) -> None:
        """Start one process and wait until it is healthy."""
        self._spawn(component)
        self._wait_healthy(component)

    def log(self, component: str) -> Path:
        """Where a component writes its log."""
        return self._daemon(component).log

    def kubectl(
        self,
        *args: str,
        input: str | None = None,
        check: bool = True,
        timeout: float = 60,
        kubeconfig: Path | None = None,
    ) -> Result:
        """Run kubectl as the administrator, or as whoever `kubeconfig` says."""
        command = [str(self.plane.binaries.kubectl), f"--kubeconfig={kubeconfig or self.admin_kubeconfig}"]
        # What the cache in the home folder knows is of another cluster that had the same port.
        command.append(f"--cache-dir={self.folder / 'kubectl-cache'}")
        environment = dict(os.environ) | {"KUBERC": "off"}
        try:
            done = subprocess.run(
                [*command, *args],
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                env=environment,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"kubectl {' '.join(args)}: no end after {timeout:.0f} s") from error
        if check and done.returncode:
            raise KubectlError(f"kubectl {' '.join(args)}: {done.stderr.strip() or done.stdout.strip()}")
        return Result(done.stdout, done.stderr, done.returncode)

    def connect(self) -> AbstractContextManager[https.Connection]:
        """A connection to the API server as the administrator, for what kubectl is too slow for."""
        return https.connect(self.api_port, self._admin_context)

    def make_kubeconfig(self, user: str, group: str = "", *, host: str = components.LOOPBACK) -> str:
        """A self-contained kubeconfig for a user of one group, for where the API server is seen as `host`."""
        pair = pki.make_certificate(pki.read_pair(self.plane.pki, "ca"), user, group=group)
        return pki.render_kubeconfig(f"https://{host}:{self.api_port}", self.ca_certificate, pair)

    def node_kubeconfig(self, name: str) -> str:
        """The kubeconfig of a node's kubelet behind qemu's user network."""
        return self.make_kubeconfig(f"system:node:{name}", "system:nodes", host=components.HOST_SEEN_FROM_GUEST)

    @classmethod
    def _start_once(cls, plane: Plane) -> "Cluster":
        cluster = cls(plane)
        components.write_kubeconfigs(plane)
        _write_plane(plane)
        try:
            cluster.start_again()
        except BaseException:
            cluster.stop()
            remove_tree(plane.folder / "etcd")
            (plane.folder / "cluster.json").unlink(missing_ok=True)
            raise
        return cluster

    def _daemon(self, component: str) -> Daemon:
        return Daemon(component, self.folder)

    def _spawn(self, component: str) -> None:
        # Without the host's proxy settings: the API server talks to nodes that no proxy can reach.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)}
        self._daemon(component).start(components.command(self.plane, component), environment)

    @cached_property
    def _admin_context(self) -> ssl.SSLContext:
        return https.make_context(self.plane.pki, "ca", "admin")

    @cached_property
    def _etcd_context(self) -> ssl.SSLContext:
        return https.make_context(self.plane.pki, "etcd-ca", "etcd-client")

    def _wait_healthy(self, component: str) -> None:
        context = self._etcd_context if component == ETCD else self._admin_context

        def probe() -> bool:
            self._check()
            with https.connect(self.plane.ports[component], context, timeout=PROBE_SECONDS) as connection:
                answer = connection.request("GET", HEALTH[component])
            if answer.status != 200:
                raise NotYetError(f"{answer.status} {answer.text[-300:]}")
            return True

        wait_for(f"{component} to be healthy", probe, READY_SECONDS)

    def _check(self) -> None:
        try:
            for component in COMPONENTS:  # the one waited for may be waiting for another
                self._daemon(component).check()
        except LabError as error:
            if "address already in use" in error.message:
                raise PortTakenError(error.message, hint=error.hint) from error
            raise

    def _has_default_account(self) -> bool:
        with self.connect() as connection:
            answer = connection.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        return answer.status == 200


def _write_plane(plane: Plane) -> None:
    binaries = {name: str(path) for name, path in asdict(plane.binaries).items()}
    state = {"ports": dict(plane.ports), "binaries": binaries}
    (plane.folder / "cluster.json").write_text(json.dumps(state, indent=1) + "\n")


def _read_plane(folder: Path) -> Plane:
    try:
        state = json.loads((folder / "cluster.json").read_text())
    except (OSError, ValueError) as error:
        raise LabError(f"there is no cluster in {folder}") from error
    binaries = Binaries(**{name: Path(path) for name, path in state["binaries"].items()})
    return Plane(folder, binaries, state["ports"])
