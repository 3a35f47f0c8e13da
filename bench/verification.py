"""What verifying images costs the operator: 1,000 resources with 50 signed images, cold and after a restart.

Run as `python -m bench.verification` in the repository; README.md beside it says what is measured.
"""

import asyncio
import json
import os
import shutil
import time
from pathlib import Path

import aiohttp

from bench.plain import Json, name, open_session, place, send, spread
from bench.pull import NAME, TAG, push_random
from bench.sked import RESOURCES, SCHEDEXTS, WORKERS, Process, empty, show, until, wait_beside, wait_created
from lab import images, kube
from lab.addresses import choose_free_ports
from lab.catalogue import open_store
from lab.cluster import Cluster
from lab.components import CONTROLLER_MANAGER
from lab.session import remove_run, run_folder
from lab.signing import Cosign, keyed
from lab.store import Store

IMAGES = 50
IDLE_SECONDS = 25.0  # after which the verifier's process has ended


def push_signed(store: Store, folder: Path, storage: Path) -> Path:
    """One image, signed by cosign, in many repositories; the public key."""
    cosign = Cosign(store, "v2", folder / "cosign")
    private, public = cosign.make_key("bench")
    with images.Registry(store, storage) as registry:
        push_random(registry.address, 1, 1 << 16)
        digest = images.fetch_digest(registry.address, NAME, TAG)
        cosign.sign(f"{registry.address}/{NAME}@{digest}", *keyed(private))
    repositories = storage / "docker/registry/v2/repositories"
    for number in range(IMAGES):
        shutil.copytree(repositories / NAME, repositories / f"scx{number}")
    return public


def make_schedext(registry: str, number: int) -> Json:
    spec = {"sched": f"{registry}/scx{number % IMAGES}:{TAG}", "nodeSelector": place(number)}
    metadata = {"name": name(number), "namespace": "default"}
    return {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": metadata, "spec": spec}


async def start_cold(manager: Process, cluster: Cluster, session: aiohttp.ClientSession, *options: str) -> float:
    """Seconds from the start of the manager to the last DaemonSet."""
    watching = asyncio.ensure_future(wait_created(session, "default"))
    began = manager.start(cluster.admin_kubeconfig, *options)
    seconds = await wait_beside(watching, manager.check) - began
    await manager.settle()
    return seconds


async def check_verified(session: aiohttp.ClientSession) -> None:
    """Raise an error unless all resources say that they are verified."""
    async with session.get(SCHEDEXTS) as answer:
        found = (await answer.json())["items"]
    conditions = (one for item in found for one in item.get("status", {}).get("conditions", []))
    verified = sum((one["type"], one["status"]) == ("Verified", "True") for one in conditions)
    if verified != RESOURCES:
        raise RuntimeError(f"{verified} of {RESOURCES} are verified")


async def measure(cluster: Cluster, session: aiohttp.ClientSession, registry: str, policy: Path) -> None:
    manager = Process(cluster.folder, choose_free_ports(1)[0])
    made = (make_schedext(registry, number) for number in range(RESOURCES))
    await spread((send(session, "POST", SCHEDEXTS, body, "application/json") for body in made), WORKERS)
    enforce = ("--verification=enforce", f"--trust-policy={policy}")
    await start_cold(manager, cluster, session)  # compiles the bytecode
    manager.stop()
    await empty(session, "default")

    seconds = await start_cold(manager, cluster, session)
    await asyncio.sleep(IDLE_SECONDS)
    plain = manager.megabytes()
    show("off: start to last DaemonSet", f"{seconds:.2f} s")
    show("off: memory, settled", f"{plain:.1f} MB")
    manager.stop()
    await empty(session, "default")

    seconds = await start_cold(manager, cluster, session, *enforce)
    await asyncio.sleep(IDLE_SECONDS)
    verified = manager.megabytes()
    show(f"enforce, {IMAGES} images, cold: start to last DaemonSet", f"{seconds:.2f} s")
    show("enforce, cold: verifications", str(manager.count("sked_verifications_total")))
    show("enforce, cold: memory, settled", f"{verified:.1f} MB")
    show("difference", f"{verified - plain:.1f} MB")
    manager.stop()
    await check_verified(session)

    began = manager.start(cluster.admin_kubeconfig, *enforce)

    async def has_looked_at_all() -> bool:
        try:
            return manager.count("controller_runtime_reconcile_total", 'result="success"') >= RESOURCES
        except OSError:
            return False

    await until("all resources to be looked at", has_looked_at_all)
    seconds = time.monotonic() - began
    await manager.settle()
    await asyncio.sleep(IDLE_SECONDS)
    show("enforce, restarted: start to the last resource looked at", f"{seconds:.2f} s")
    show("enforce, restarted: verifications", str(manager.count("sked_verifications_total")))
    show("enforce, restarted: memory, settled", f"{manager.megabytes():.1f} MB")
    manager.stop()
    await check_verified(session)


async def run(cluster: Cluster, registry: str, policy: Path) -> None:
    async with open_session(cluster.plane.server, cluster.plane.pki) as session:
        await measure(cluster, session, registry, policy)


def main() -> None:
    store = open_store()
    folder = run_folder(store, "bench")
    try:
        public = push_signed(store, folder, folder / "registry")
        policy = folder / "trust" / "policy.yaml"
        policy.parent.mkdir()
        policy.write_text(json.dumps({"keys": [{"path": str(public)}]}))
        binaries = kube.binaries(store, kube.read_assets())
        cluster = Cluster.start(folder / "cluster", binaries)
        cluster.kubectl("apply", "-k", str(Path(__file__).resolve().parents[1] / "config/crd"))
        cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io", "--timeout=60s")
        cluster.stop_component(CONTROLLER_MANAGER)  # no nodes, no pods: the operator alone
        show("load", f"{os.getloadavg()[0]:.1f}")
        with images.Registry(store, folder / "registry") as registry:
            asyncio.run(run(cluster, registry.address, policy))
        show("load", f"{os.getloadavg()[0]:.1f}")
    finally:
        remove_run(store, folder)


if __name__ == "__main__":
    main()
