"""How fast `schedctl pull` fills containerd, beside `ctr images pull` into the same and `skopeo copy` to a folder.

Run as `python -m bench.pull` in the repository; README.md beside it says what is measured.
"""

import argparse
import gzip
import hashlib
import http.client
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from lab import images, rooms
from lab.catalogue import open_store
from lab.containerd import SERIES, LabContainerd
from lab.host import check_host
from lab.session import remove_run, run_folder
from lab.store import Store

ROOT = Path(__file__).resolve().parents[1]
LAYERS, LAYER_BYTES = 4, 50_000_000
NAME, TAG = "random", "1"
PROGRAM = "import sys; sys.argv[0] = 'schedctl'; from schedkit.schedctl.main import main; main()"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
Json = dict[str, object]


def push_random(address: str, layers: int, size: int) -> None:
    """An image of random bytes, which do not shrink."""
    descriptors, diff_ids = [], []
    for number in range(layers):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            member = tarfile.TarInfo(f"random-{number}")
            member.size = size
            tar.addfile(member, io.BytesIO(os.urandom(size)))
        diff_ids.append(digest(archive.getvalue()))
        descriptors.append(push_blob(address, LAYER, gzip.compress(archive.getvalue(), 1)))
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/random-0"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    described = push_blob(address, CONFIG, json.dumps(config).encode())
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": descriptors}
    ask(address, "PUT", f"/v2/{NAME}/manifests/{TAG}", json.dumps(manifest).encode(), MANIFEST)


def push_blob(address: str, media_type: str, data: bytes) -> Json:
    location = ask(address, "POST", f"/v2/{NAME}/blobs/uploads/")
    path = location.partition(address)[2] or location
    ask(address, "PUT", f"{path}{'&' if '?' in path else '?'}digest={digest(data)}", data, "application/octet-stream")
    return {"mediaType": media_type, "digest": digest(data), "size": len(data)}


def ask(address: str, method: str, path: str, body: bytes = b"", media_type: str = "") -> str:
    connection = http.client.HTTPConnection(address, timeout=120)
    try:
        connection.request(method, path, body, {"Content-Type": media_type} if media_type else {})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {said!r}")
        return answer.headers.get("Location", "")
    finally:
        connection.close()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def measure(store: Store, series: str, folder: Path, turns: int, layers: int, size: int) -> None:
    """Each in turn, so that whatever else the machine does hits all alike; the first turn warms up."""
    daemon = LabContainerd.start(store, folder / "containerd", series)
    try:
        with images.Registry(store, folder / "registry") as registry:
            push_random(registry.address, layers, size)
            ways = _ways(store, daemon, folder, f"{registry.address}/{NAME}:{TAG}")
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(turns + 1):
                for name, (pull, forget) in ways.items():
                    began = time.perf_counter()
                    pull()
                    if turn:
                        seconds[name].append(time.perf_counter() - began)
                    forget()
    finally:
        daemon.stop()
    ours = statistics.median(seconds["schedctl pull"])
    megabytes = layers * size / 1e6
    print(
        f"{megabytes:.0f} MB in {layers} layers, containerd {series}, median of {turns}, load {os.getloadavg()[0]:.1f}:"
    )
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        print(
            f"  {name:<16} {middle:5.2f} s  {megabytes / middle:5.0f} MB/s  schedctl is {middle / ours:4.2f}× as fast"
        )


def _ways(
    store: Store, daemon: LabContainerd, folder: Path, image: str
) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """How to pull the image, and how to have it gone again."""
    copied = folder / "copied"
    copied.mkdir()
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    schedctl = [sys.executable, "-c", PROGRAM, "-d", "containerd", "--socket", str(daemon.socket)]
    skopeo = ["skopeo", "copy", "--quiet", "--src-tls-verify=false", f"docker://{image}", "dir:/copied/image"]

    def remove() -> None:
        daemon.ctr("images", "rm", "--sync", image)

    return {
        "schedctl pull": (lambda: run([*schedctl, "pull", image, "--allow-unsigned"], environment), remove),
        "ctr images pull": (lambda: daemon.ctr("images", "pull", "--plain-http", image), remove),
        "skopeo copy": (
            lambda: run(rooms.enter(store.path(rooms.TOOLS), skopeo, binds={copied: "/copied"}), dict(os.environ)),
            lambda: shutil.rmtree(copied / "image"),
        ),
    }


def run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr}")


def main() -> None:
    """Measure one series of containerd."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--series", choices=SERIES, default="1.7")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--size", type=int, default=LAYER_BYTES, help="bytes of a layer")
    chosen = parser.parse_args()
    check_host()
    store = open_store()
    store.ensure(rooms.TOOLS)
    folder = run_folder(store, "bench")
    try:
        measure(store, chosen.series, folder, chosen.turns, chosen.layers, chosen.size)
    finally:
        remove_run(store, folder)


if __name__ == "__main__":
    main()
