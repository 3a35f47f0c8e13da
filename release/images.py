"""The operator's image as an OCI archive: an index with one image for each platform, as a registry would hold it."""

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import images, rooms
from lab.errors import BuildError
from lab.sked_image import build_sked
from lab.store import Store
from release.archives import make_tar
from release.bases import PLATFORMS

INDEX = "application/vnd.oci.image.index.v1+json"


def build_image(
    store: Store, name: str, out: Path, architectures: Sequence[str], *, version: str, revision: str, epoch: int
) -> tuple[Path, str]:
    """Write the image's archive to `out`; return its path and the digest by which a registry will know it."""
    with tempfile.TemporaryDirectory(prefix="release-", dir=store.root / "run") as folder:
        work = Path(folder)
        layouts = {}
        with images.Registry(store, work / "registry") as registry:
            for architecture in architectures:
                arguments = {"VERSION": version, "REVISION": revision}
                tag = f"sked:{architecture}"
                with store.progress.step(f"operator's image for {architecture}"):
                    build_sked(store, registry.address, tag=tag, build_args=arguments, platform=PLATFORMS[architecture])
                layouts[architecture] = work / architecture
                copy_image(store, f"{registry.address}/{tag}", layouts[architecture])
        files, digest = join_layouts(layouts, name)
    path = out / f"sked-{version}.oci.tar"
    path.write_bytes(make_tar(files, epoch))
    return path, digest


def copy_image(store: Store, source: str, layout: Path) -> None:
    """Copy an image from a registry on loopback to a layout of its own."""
    layout.mkdir()
    copy = ["skopeo", "copy", "--quiet", "--preserve-digests", "--src-tls-verify=false", f"docker://{source}"]
    command = rooms.enter(store.path(rooms.TOOLS), [*copy, "oci:/layout:image"], binds={layout: "/layout"})
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"the image was not copied: {done.stderr.strip()}")


def join_layouts(layouts: dict[str, Path], name: str) -> tuple[dict[str, bytes], str]:
    """One layout, as files, with an index of the one image that each of these has; and the index's digest."""
    files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    manifests = []
    for architecture, layout in sorted(layouts.items()):
        (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
        described = {key: entry[key] for key in ("mediaType", "digest", "size")}
        manifests.append(described | {"platform": {"architecture": architecture, "os": "linux"}})
        for blob in sorted((layout / "blobs/sha256").iterdir()):
            files[f"blobs/sha256/{blob.name}"] = blob.read_bytes()
    index = _encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
    hexadecimal = hashlib.sha256(index).hexdigest()
    files[f"blobs/sha256/{hexadecimal}"] = index
    # The first is what skopeo and podman read as the image's name, the second what containerd does.
    names = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
    digest = f"sha256:{hexadecimal}"
    top = {"mediaType": INDEX, "digest": digest, "size": len(index), "annotations": names}
    files["index.json"] = _encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]})
    return files, digest


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
