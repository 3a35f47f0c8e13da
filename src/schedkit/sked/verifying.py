"""`sked verify`: what the operator would say of the images of resources, without a cluster."""

from collections.abc import Callable, Iterator, Sequence

from schedkit.errors import SchedkitError, clean
from schedkit.images.reference import parse_reference
from schedkit.sked.api.types import SchedExt
from schedkit.sked.api.workloads import ResolvedWorkload, resolve_workloads
from schedkit.sked.controller.verification import find_loophole
from schedkit.sked.verifier.judge import Judge
from schedkit.sked.verifier.messages import TrustSettings
from schedkit.trust.errors import Refusal
from schedkit.trust.policy import Policy


class UnsafeOverrideError(Refusal):
    """A verified image could be made to run something else."""

    reason = "UnsafeOverride"


def tell_images(resources: Sequence[SchedExt], settings: TrustSettings, echo: Callable[[str], None]) -> None:
    """Tell of each image who signed it, or why not; the first reason why not is raised at the end."""
    judge = Judge(settings)
    policy = judge.read_policy()
    first: SchedkitError | None = None
    for resource in resources:
        for workload in resolve_workloads(resource):
            name = resource.metadata.name + (f", pool {workload.pool}" if workload.pool else "")
            try:
                lines = list(_tell(judge, policy, workload))
            except SchedkitError as error:
                first = first or error
                lines = ["verified    no", f"reason      {error.reason}", f"message     {error.message}"]
            for line in (f"schedext    {name}", f"image       {workload.sched}", *lines):
                echo(clean(line))
    if first:
        raise first


def _tell(judge: Judge, policy: Policy, workload: ResolvedWorkload) -> Iterator[str]:
    if loophole := find_loophole(workload):
        raise UnsafeOverrideError(loophole.message, hint="under --verification=enforce it is not carried out")
    reference = parse_reference(workload.sched)
    digest = reference.digest or judge.resolve(workload.sched, policy)
    image = f"{reference.repository}@{digest}"
    judged = judge.judge(image, policy)
    yield f"resolved    {image}"
    yield "verified    yes"
    yield f"policy      {policy.origin}, rule {judged.rule}"
    yield f"signed by   {judged.signer}"
