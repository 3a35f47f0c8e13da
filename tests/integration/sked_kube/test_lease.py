"""Leader election on a real API server, among ourselves and with client-go itself: the lab's kube-scheduler."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from schedkit.sked.kube import lease
from schedkit.sked.kube.client import Client
from schedkit.sked.kube.config import Access, read_access
from schedkit.sked.kube.lease import Elector, LeadershipLostError, Timing
from schedkit.sked.kube.metrics import MetricsRegistry
from tests.integration.clusters import read_object
from tests.integration.sked_kube.tools import connect, running, until

STEADY = Timing(lease_seconds=15, renew_seconds=10.0, retry_seconds=0.3)  # what a busy host does not keep from renewing
QUICK = Timing(lease_seconds=6, renew_seconds=4.0, retry_seconds=0.3)  # for those that are to lose it
NAMESPACE = "kube-system"


def read_lease(cluster: Cluster, name: str) -> dict[str, Any]:
    found = read_object(cluster, "lease", name, NAMESPACE)
    assert found
    spec: dict[str, Any] = found["spec"]
    return spec


def patch_lease(cluster: Cluster, name: str, **spec: object) -> None:
    body = json.dumps({"spec": spec})
    cluster.kubectl("patch", "lease", name, "-n", NAMESPACE, "--type=merge", "-p", body)


class Leader:
    """Something to do while leading: to be seen at it, and stopped."""

    def __init__(self) -> None:
        self.leading = asyncio.Event()
        self.stop = asyncio.Event()
        self.cancelled = False

    async def __call__(self) -> None:
        self.leading.set()
        try:
            await self.stop.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.leading.clear()


@asynccontextmanager
async def candidate(
    cluster: Cluster, name: str, identity: str, registry: MetricsRegistry | None = None, timing: Timing = STEADY
) -> AsyncIterator[tuple[Leader, asyncio.Task[None], Callable[[], Awaitable[None]]]]:
    """A candidate of its own connection: its leader, its task, and how to cut it off from the server."""
    leader = Leader()
    async with connect(cluster) as client:
        elector = Elector(client, name, NAMESPACE, identity=identity, timing=timing, registry=registry)

        async def cut_off() -> None:
            await client.__aexit__(None, None, None)

        async with running(elector.run(leader)) as task:
            yield leader, task, cut_off


async def test_one_leads_and_the_other_takes_over_when_it_is_cut_off(cluster: Cluster) -> None:
    async with candidate(cluster, "cut", "one", timing=QUICK) as (first, first_task, cut_off):
        await until(first.leading.is_set)
        spec = read_lease(cluster, "cut")
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 6, 0)
        async with candidate(cluster, "cut", "two") as (second, _, _):
            await until(lambda: read_lease(cluster, "cut")["renewTime"] != spec["renewTime"])
            assert not second.leading.is_set()
            await cut_off()
            await until(second.leading.is_set)
            assert not first.leading.is_set(), "the old leader stops before a new one can start"
            with pytest.raises(LeadershipLostError, match="not renewed in 4 s"):
                await first_task
            assert first.cancelled
            taken = read_lease(cluster, "cut")
            assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("two", 1)
            assert taken["acquireTime"] > spec["acquireTime"]


async def test_release_hands_over_at_once_in_the_form_of_client_go(cluster: Cluster) -> None:
    registry = MetricsRegistry()
    async with candidate(cluster, "handed", "one", registry) as (first, first_task, _):
        await until(first.leading.is_set)
        assert 'leader_election_master_status{name="handed"} 1' in registry.render().decode()
        first.stop.set()
        await first_task
        assert not first.cancelled
        assert 'leader_election_master_status{name="handed"} 0' in registry.render().decode()
        spec = read_lease(cluster, "handed")
        # An empty holder is kept as it was written: empty, not absent.
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 0)
    async with candidate(cluster, "handed", "two") as (second, _, _):
        await until(second.leading.is_set)
        assert read_lease(cluster, "handed")["leaseTransitions"] == 1


async def test_cancelled_leader_releases_too(cluster: Cluster) -> None:
    async with candidate(cluster, "cancelled", "one") as (first, task, _):
        await until(first.leading.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert first.cancelled
        assert read_lease(cluster, "cancelled")["holderIdentity"] == ""


class Announcing(Client):
    """Tells when it begins to write."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.writing = asyncio.Event()

    async def _write(self, *args: Any, **settings: Any) -> Any:
        self.writing.set()
        return await super()._write(*args, **settings)


@pytest.mark.parametrize("exists", [False, True])
async def test_claim_under_way_is_released_when_the_candidate_is_cancelled(
    cluster: Cluster, exists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "CLAIM_SECONDS", 60.0)
    name = f"claimed-{exists}".lower()
    if exists:
        made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
        cluster.kubectl("create", "-n", NAMESPACE, "-f", "-", input=json.dumps(made))

    async with Announcing(read_access({}, kubeconfig=cluster.admin_kubeconfig)) as client:
        leader = Leader()
        elector = Elector(client, name, NAMESPACE, identity="hasty", timing=STEADY)
        async with running(elector.run(leader)) as task:
            await asyncio.wait_for(client.writing.wait(), 60)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        spec = read_lease(cluster, name)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1), "taken, and given back"
        assert not elector.holds


async def test_leader_that_is_cut_off_no_longer_holds_before_another_leads(cluster: Cluster) -> None:
    async with connect(cluster) as client:
        first = Elector(client, "fenced", NAMESPACE, identity="one", timing=QUICK)
        async with running(first.run(Leader())):
            await until(lambda: first.holds)
            async with candidate(cluster, "fenced", "two") as (second, _, _):
                await client.__aexit__(None, None, None)
                await until(lambda: second.leading.is_set() or not first.holds)
                assert not second.leading.is_set()
                await until(second.leading.is_set)


async def test_stolen_lease_ends_leading_at_once(cluster: Cluster) -> None:
    async with candidate(cluster, "stolen", "one") as (first, task, _):
        await until(first.leading.is_set)
        patch_lease(cluster, "stolen", holderIdentity="thief", leaseDurationSeconds=3600)
        with pytest.raises(LeadershipLostError, match="thief leads now"):
            await asyncio.wait_for(task, 60)
        assert first.cancelled
        assert read_lease(cluster, "stolen")["holderIdentity"] == "thief", "what is not ours is not released"


async def test_deleted_lease_is_made_again_and_leading_goes_on(cluster: Cluster) -> None:
    async with candidate(cluster, "deleted", "one") as (first, _, _):
        await until(first.leading.is_set)
        cluster.kubectl("delete", "lease", "deleted", "-n", NAMESPACE)

        def is_back() -> bool:
            return read_object(cluster, "lease", "deleted", NAMESPACE) is not None

        await until(is_back)
        assert first.leading.is_set()
        assert not first.cancelled


async def test_what_others_keep_on_the_lease_stays(cluster: Cluster) -> None:
    async with candidate(cluster, "labelled", "one") as (first, _, _):
        await until(first.leading.is_set)
        cluster.kubectl("label", "lease", "labelled", "kept=yes", "-n", NAMESPACE)
        before = read_lease(cluster, "labelled")["renewTime"]
        await until(lambda: read_lease(cluster, "labelled")["renewTime"] > before)
        assert first.leading.is_set()
        shown = cluster.kubectl("get", "lease", "-l", "kept=yes", "-n", NAMESPACE, "-o", "name").stdout
        assert shown == "lease.coordination.k8s.io/labelled\n"


@contextmanager
def client_go(cluster: Cluster, name: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A candidate made of client-go: a kube-scheduler that wants this lease before it does anything."""
    command = [
        str(cluster.plane.binaries.kube_scheduler),
        f"--kubeconfig={cluster.admin_kubeconfig}",
        f"--authentication-kubeconfig={cluster.admin_kubeconfig}",
        f"--authorization-kubeconfig={cluster.admin_kubeconfig}",
        "--secure-port=0",
        "--leader-elect",
        f"--leader-elect-resource-name={name}",
        f"--leader-elect-resource-namespace={NAMESPACE}",
        "--leader-elect-lease-duration=8s",
        "--leader-elect-renew-deadline=6s",
        "--leader-elect-retry-period=300ms",
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_client_go_takes_over_from_us_and_we_from_it(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "scheduler.log"

    def holder() -> str:
        return str(read_lease(cluster, "shared").get("holderIdentity", ""))

    async with candidate(cluster, "shared", "ours_1") as (first, first_task, _):
        await until(first.leading.is_set)
        with client_go(cluster, "shared", log) as process:
            await until(lambda: b"attempting to acquire" in log.read_bytes().lower(), "client-go to want the lease")
            seen = read_lease(cluster, "shared")["renewTime"]
            await until(lambda: read_lease(cluster, "shared")["renewTime"] > seen)
            assert holder() == "ours_1"
            first.stop.set()
            await first_task
            await until(lambda: holder() not in ("", "ours_1"), "client-go to lead")
            theirs = read_lease(cluster, "shared")
            assert theirs["leaseTransitions"] == 1
            async with candidate(cluster, "shared", "ours_2") as (second, _, _):
                await until(lambda: read_lease(cluster, "shared")["renewTime"] > theirs["renewTime"])
                assert not second.leading.is_set()
                process.send_signal(signal.SIGKILL)
                await until(second.leading.is_set, "us to lead after client-go died")
                ours = read_lease(cluster, "shared")
                assert (ours["holderIdentity"], ours["leaseTransitions"]) == ("ours_2", 2)


async def test_lease_that_client_go_released_is_taken_at_once(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "scheduler.log"

    with client_go(cluster, "given", log) as process:

        def is_held() -> bool:
            return read_object(cluster, "lease", "given", NAMESPACE) is not None

        await until(is_held, "client-go to lead")
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait)
        async with candidate(cluster, "given", "ours") as (leader, _, _):
            await until(leader.leading.is_set)
            assert read_lease(cluster, "given")["leaseTransitions"] >= 1
