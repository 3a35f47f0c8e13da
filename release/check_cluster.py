"""The proof that a cluster can use it: the image runs, and chart and install.yaml name that image."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import yaml

from lab import images, rooms
from lab.errors import LabError
from lab.helm import HELM
from lab.store import Store
from release.bases import QEMU
from schedkit import __version__

SAMPLES = Path("config/samples")


def check_image(store: Store, out: Path, project: Path, folder: Path) -> tuple[str, list[str]]:
    """Run the programs of the image in the archive, for each architecture; return its digest, and which those are."""
    architectures = []
    blobs = read_archive(out / f"sked-{__version__}.oci.tar")
    (top,) = json.loads(blobs["index.json"])["manifests"]
    index = read_blob(blobs, top["digest"])
    for entry in json.loads(index)["manifests"]:
        architecture = entry["platform"]["architecture"]
        manifest = json.loads(read_blob(blobs, entry["digest"]))
        config = json.loads(read_blob(blobs, manifest["config"]["digest"]))
        if config["architecture"] != architecture:
            raise LabError(f"the image for {architecture} says that it is for {config['architecture']}")
        root = folder / architecture
        root.mkdir()
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(read_blob(blobs, layer["digest"]))) as archive:
                archive.extractall(root, filter="tar")
        root.chmod(0o755)
        qemu = None
        if architecture == "arm64":
            store.ensure(QEMU)
            qemu = store.path(QEMU) / "qemu-aarch64"
        run_image(root, config["config"], project, qemu)
        architectures.append(architecture)
    return str(top["digest"]), architectures


def run_image(root: Path, settings: dict[str, Any], project: Path, qemu: Path | None) -> None:
    """Run the manager and sked as the image's user, with its environment; by qemu if they are not for this host."""
    if qemu:
        shutil.copy(qemu, root / "qemu")
    environment = dict(variable.split("=", 1) for variable in settings["Env"])
    sample = (project / SAMPLES / "sked_v1_schedext.yaml").read_text()
    for words, given, wanted in (
        (["/usr/bin/sked", "--version"], "", f"sked {__version__}"),
        ([*settings["Entrypoint"], "--help"], "", "Usage: sked manager"),
        (["/usr/bin/sked", "render", "-"], sample, "kind: DaemonSet"),
    ):
        # qemu runs a program, not a script: it gets the script's interpreter.
        first = (root / words[0].lstrip("/")).read_text().splitlines()[0].removeprefix("#!").split()
        start = ["/qemu", *first] if qemu else []
        command = ["/usr/sbin/chroot", "--userspec", settings["User"], str(root), *start, *words]
        done = subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=False)
        if done.returncode or wanted not in done.stdout:
            raise LabError(f"{' '.join(words)} in the image: exit status {done.returncode}\n{done.stderr[-2000:]}")


def check_publishing(store: Store, out: Path, digest: str, folder: Path) -> None:
    """Copy the archive to a registry as the documentation says; it has the same digest there."""
    with images.Registry(store, folder / "registry") as registry:
        name = f"docker://{registry.address}/sked:released"
        archive = f"oci-archive:/dist/sked-{__version__}.oci.tar"
        run_skopeo(
            store, out, "copy", "--quiet", "--all", "--preserve-digests", "--dest-tls-verify=false", archive, name
        )
        index = run_skopeo(store, out, "inspect", "--raw", "--tls-verify=false", name)
    published = f"sha256:{hashlib.sha256(index).hexdigest()}"
    if published != digest:
        raise LabError(f"the registry has {published}, not {digest}")


def run_skopeo(store: Store, out: Path, *words: str) -> bytes:
    """Run skopeo in a room that sees the release as /dist."""
    command = rooms.enter(store.path(rooms.TOOLS), ["skopeo", *words], binds={out: "/dist"})
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise LabError(f"skopeo {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def check_manifests(store: Store, out: Path, image: str, digest: str) -> None:
    """The chart renders, and the chart and install.yaml start exactly the image of the archive."""
    store.ensure(HELM)
    (chart,) = out.glob("sked-*.tgz")
    helm = store.path(HELM) / "bin/helm"
    done = subprocess.run(
        [helm, "template", "sked", chart, "--namespace=sked-system"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"helm template: {done.stderr.strip()}")
    repository = image.rpartition(":")[0]
    for name, text, wanted in (
        (chart.name, done.stdout, f"{repository}@{digest}"),
        ("install.yaml", (out / "install.yaml").read_text(), f"{image}@{digest}"),
    ):
        found = find_images(text)
        if wanted not in found:
            raise LabError(f"{name} starts {found}, not {wanted}")


def find_images(text: str) -> list[str]:
    """The images that the Deployments in some manifests start."""
    documents = [one for one in yaml.safe_load_all(text) if one and one["kind"] == "Deployment"]
    return [one["image"] for document in documents for one in document["spec"]["template"]["spec"]["containers"]]


def read_archive(path: Path) -> dict[str, bytes]:
    """The files of a tar archive."""
    with tarfile.open(path) as archive:
        found = ((entry.name, archive.extractfile(entry)) for entry in archive if entry.isfile())
        return {name: file.read() for name, file in found if file}


def read_blob(files: dict[str, bytes], digest: str) -> bytes:
    """One blob, whose digest is what it must be."""
    content = files[f"blobs/{digest.replace(':', '/')}"]
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        raise LabError(f"the blob {digest} is another one")
    return content
