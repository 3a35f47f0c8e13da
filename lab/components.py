"""What a control plane is made of: its processes' command lines and the credentials they show each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import pki
from lab.kube import Binaries

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
COMPONENTS = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)  # in the order in which they start

LOOPBACK = "127.0.0.1"
HOST_SEEN_FROM_GUEST = "10.0.2.2"  # this host's loopback, in a qemu user network
SERVICE_RANGE = "10.96.0.0/16"
API_HOSTS = (LOOPBACK, HOST_SEEN_FROM_GUEST, "10.96.0.1", "localhost", "kubernetes.default", "kubernetes.default.svc")
# The defaults are made to spare a shared API server; ours has a thousand nodes and one user.
REQUESTS_PER_SECOND = 2000


@dataclass(frozen=True)
class Plane:
    """One control plane: where its files are, what it runs and on which ports (component → port)."""

    folder: Path
    binaries: Binaries
    ports: Mapping[str, int]

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports[API_SERVER]}"

    def kubeconfig(self, name: str) -> Path:
        return self.folder / f"{name}.kubeconfig"


def write_certificates(folder: Path) -> None:
    """Write two authorities and what they sign: a client of the cluster's is nobody to etcd."""
    authority = pki.make_authority("lab")
    etcd_authority = pki.make_authority("lab-etcd")
    pairs = {
        "ca": authority,
        "etcd-ca": etcd_authority,
        "etcd": pki.make_certificate(etcd_authority, "etcd", hosts=(LOOPBACK, "localhost")),
        "etcd-client": pki.make_certificate(etcd_authority, API_SERVER),
        API_SERVER: pki.make_certificate(authority, API_SERVER, hosts=API_HOSTS),
        "kubelet-client": pki.make_certificate(authority, "kube-apiserver-kubelet-client", group="system:masters"),
        "admin": pki.make_certificate(authority, "admin", group="system:masters"),
        CONTROLLER_MANAGER: pki.make_certificate(authority, f"system:{CONTROLLER_MANAGER}", hosts=(LOOPBACK,)),
        SCHEDULER: pki.make_certificate(authority, f"system:{SCHEDULER}", hosts=(LOOPBACK,)),
    }
    for name, pair in pairs.items():
        pki.write_pair(folder, name, pair)
    pki.write_secret(folder / "service-accounts.key", pki.make_key())


def write_kubeconfigs(plane: Plane) -> None:
    """Write the kubeconfigs of the administrator and of the components that are clients."""
    authority = (plane.pki / "ca.crt").read_text()
    for name in ("admin", CONTROLLER_MANAGER, SCHEDULER):
        text = pki.render_kubeconfig(plane.server, authority, pki.read_pair(plane.pki, name))
        pki.write_secret(plane.kubeconfig(name), text)


def command(plane: Plane, component: str) -> list[str]:
    """The command line of one component."""
    return {
        ETCD: _etcd,
        API_SERVER: _api_server,
        CONTROLLER_MANAGER: _controller_manager,
        SCHEDULER: _scheduler,
    }[component](plane)


def _etcd(plane: Plane) -> list[str]:
    url = f"https://{LOOPBACK}:{plane.ports[ETCD]}"
    return [
        str(plane.binaries.etcd),
        f"--data-dir={plane.folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--cert-file={plane.pki / 'etcd.crt'}",
        f"--key-file={plane.pki / 'etcd.key'}",
        f"--trusted-ca-file={plane.pki / 'etcd-ca.crt'}",
        "--client-cert-auth",
        # It has no peers, but listens for them all the same: on any port, and only to holders of a certificate.
        f"--listen-peer-urls=https://{LOOPBACK}:0",
        f"--peer-cert-file={plane.pki / 'etcd.crt'}",
        f"--peer-key-file={plane.pki / 'etcd.key'}",
        f"--peer-trusted-ca-file={plane.pki / 'etcd-ca.crt'}",
        "--peer-client-cert-auth",
        "--log-level=warn",
        "--unsafe-no-fsync",  # survives the end of the process, if not of the host
    ]


def _api_server(plane: Plane) -> list[str]:
    return [
        str(plane.binaries.kube_apiserver),
        f"--etcd-servers=https://{LOOPBACK}:{plane.ports[ETCD]}",
        f"--etcd-cafile={plane.pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={plane.pki / 'etcd-client.crt'}",
        f"--etcd-keyfile={plane.pki / 'etcd-client.key'}",
        *_serving(plane, API_SERVER),
        f"--advertise-address={HOST_SEEN_FROM_GUEST}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        f"--client-ca-file={plane.pki / 'ca.crt'}",
        f"--kubelet-client-certificate={plane.pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={plane.pki / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--shutdown-watch-termination-grace-period=2s",  # else it waits for clients to end their watches
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={plane.pki / 'service-accounts.key'}",
        f"--service-account-signing-key-file={plane.pki / 'service-accounts.key'}",
    ]


def _controller_manager(plane: Plane) -> list[str]:
    return [
        str(plane.binaries.kube_controller_manager),
        *_serving(plane, CONTROLLER_MANAGER),
        *_client(plane, CONTROLLER_MANAGER),
        "--use-service-account-credentials",
        f"--service-account-private-key-file={plane.pki / 'service-accounts.key'}",
        f"--root-ca-file={plane.pki / 'ca.crt'}",
        # On a busy host leases are renewed late; simulated nodes never make ready again the pods that this would cost.
        "--node-monitor-grace-period=5m",
    ]


def _scheduler(plane: Plane) -> list[str]:
    return [str(plane.binaries.kube_scheduler), *_serving(plane, SCHEDULER), *_client(plane, SCHEDULER)]


def _serving(plane: Plane, component: str) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={plane.ports[component]}",
        f"--tls-cert-file={plane.pki / f'{component}.crt'}",
        f"--tls-private-key-file={plane.pki / f'{component}.key'}",
    ]


def _client(plane: Plane, component: str) -> list[str]:
    return [
        f"--kubeconfig={plane.kubeconfig(component)}",
        f"--kube-api-qps={REQUESTS_PER_SECOND}",
        f"--kube-api-burst={REQUESTS_PER_SECOND}",
        "--leader-elect=false",
    ]
