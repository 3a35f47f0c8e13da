"""What is known of a resource's images: resolved to which digest, verified by whom, or why not."""

import asyncio
from collections.abc import Iterator

from schedkit.errors import ExitCode, NoAnswerError
from schedkit.sked.api.conditions import VERIFIED, Reason
from schedkit.sked.api.requests import REFRESH
from schedkit.sked.api.types import PoolStatus, SchedExt, Verified
from schedkit.sked.kube.informer import Informer
from schedkit.sked.kube.objects import Model
from schedkit.sked.plugin.objects import SCHEDEXTS
from schedkit.sked.plugin.rollouts import list_claims
from schedkit.sked.plugin.session import PluginSession
from schedkit.sked.plugin.steering import refresh

REFRESH_LENGTH = 64  # so much of the annotation's value is kept as carried out
EXIT_CODES = {
    Reason.UNSIGNED: ExitCode.UNSIGNED,
    Reason.UNTRUSTED: ExitCode.UNTRUSTED,
    Reason.EXPIRED: ExitCode.EXPIRED,
    Reason.NO_LOG_ENTRY: ExitCode.NO_LOG_ENTRY,
    Reason.BAD_SIGNATURE: ExitCode.BAD_SIGNATURE,
}


class ImageVerdict(Model, frozen=True, kw_only=True, omit_defaults=False):
    """What is known of one image."""

    pool: str
    image: str
    resolved_image: str
    verified: Verified | None


class ResourceVerdict(Model, frozen=True, kw_only=True, omit_defaults=False):
    """What is known of a resource's images; `status` is empty where sked verifies nothing, or has said nothing yet."""

    namespace: str
    name: str
    status: str
    reason: str
    message: str
    images: tuple[ImageVerdict, ...]

    @property
    def exit_code(self) -> ExitCode:
        if self.status == "True":
            return ExitCode.OK
        if self.status == "False":
            return next((code for reason, code in EXIT_CODES.items() if reason == self.reason), ExitCode.FAILURE)
        return ExitCode.UNVERIFIED


def read_verdict(resource: SchedExt) -> ResourceVerdict:
    """What the operator has said of the images of the newest spec."""
    metadata, status = resource.metadata, resource.status
    told = {pool.name: pool for pool in status.pools}
    condition = next((one for one in status.conditions if one.type == VERIFIED), None)
    if condition and condition.observed_generation < metadata.generation:
        condition = None
    missing = (
        "sked does not verify images in this cluster"
        if status.observed_generation >= metadata.generation
        else "the operator has not seen this spec yet"
    )
    return ResourceVerdict(
        namespace=metadata.namespace,
        name=metadata.name,
        status=condition.status if condition else "",
        reason=condition.reason if condition else "",
        message=condition.message if condition else missing,
        images=tuple(
            ImageVerdict(pool=claim.pool, image=claim.sched, resolved_image=pool.resolved_image, verified=pool.verified)
            for claim in list_claims(resource)
            for pool in (told.get(claim.pool) or PoolStatus(name=claim.pool),)
        ),
    )


async def verify_again(session: PluginSession, name: str, seconds: float) -> SchedExt:
    """Ask for a new verification of the images, and wait for the result."""
    await session.change_resource(name, refresh)
    changed = asyncio.Event()
    informer = Informer(
        session.client,
        SCHEDEXTS,
        SchedExt,
        namespaces=[session.namespace],
        field_selector=f"metadata.name={name}",
    )
    informer.on_change(lambda _old, _new: changed.set())
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(seconds):
            while True:
                await changed.wait()
                changed.clear()
                found = informer.store.get(session.namespace, name)
                if found and _is_judged(found):
                    return found
    except TimeoutError as error:
        hint = "does the operator run? `kubectl scx verify` shows what it says by and by"
        raise NoAnswerError(f"the images of {name} are not verified after {seconds:g} s", hint=hint) from error
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _is_judged(resource: SchedExt) -> bool:
    asked = resource.metadata.annotations.get(REFRESH, "")[:REFRESH_LENGTH]
    verdict = read_verdict(resource)
    return resource.status.last_handled_refresh == asked and verdict.status in ("True", "False")


def render_verdict(verdict: ResourceVerdict) -> str:
    """It in words."""
    return "\n".join(_tell(verdict))


def _tell(verdict: ResourceVerdict) -> Iterator[str]:
    word = {"True": "verified", "False": f"not verified, {verdict.reason}", "Unknown": "not known yet"}
    yield f"{verdict.namespace}/{verdict.name}: {word.get(verdict.status, 'not verified')}: {verdict.message}"
    for image in verdict.images:
        yield f"  {f'pool {image.pool}: ' if image.pool else ''}{image.image}"
        if image.resolved_image:
            yield f"    resolved to {image.resolved_image}"
        if image.verified:
            found = image.verified
            yield f"    signed by {found.signer}, found at {found.time} by policy {found.policy}"
