"""What a command would do: --dry-run, which makes all checks and changes nothing."""

import shlex
from typing import TYPE_CHECKING, NamedTuple

import click

from schedkit.schedctl.options import Function
from schedkit.schedctl.output import Json, format_bytes, format_span
from schedkit.schedctl.views import SHORT_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedkit.host.model import Managed, RunRequest, Verify
    from schedkit.images.image import Image
    from schedkit.runtimes.container import Container
    from schedkit.runtimes.model import Runtime
    from schedkit.schedctl.session import Session


class DryRun(NamedTuple):
    """Steps, each of which reads on from `would`; the image only where one would be started."""

    steps: tuple[str, ...]
    scheduler: str | None = None
    image: "Image | None" = None
    verified: str | None = None

    def add(self, *steps: str) -> "DryRun":
        """Return this plan with one more step."""
        return self._replace(steps=(*self.steps, *steps))


def dry_run_option(function: Function) -> Function:
    """Add `--dry-run` to a command that changes something."""
    return click.option(
        "--dry-run", is_flag=True, help="Run all checks and show what would be done, without doing it."
    )(function)


def show_plan(session: "Session", plan: DryRun) -> None:
    """Print it."""
    session.output.show(lambda: _fields(plan), lambda: describe_plan(plan.steps))


def describe_plan(steps: "Iterable[str]") -> str:
    """Each step on a line; nothing to do is a plan too."""
    return "\n".join(f"would {step}" for step in steps) or "would do nothing"


def _fields(plan: DryRun) -> Json:
    return {
        "dry_run": True,
        "scheduler": plan.scheduler,
        "image": plan.image.reference if plan.image else None,
        "digest": plan.image.digest if plan.image else None,
        "verified": plan.verified,
        "steps": list(plan.steps),
    }


def plan_images(session: "Session", requests: "Iterable[RunRequest]", verify: "Verify") -> DryRun:
    """Everything that is looked at before images are pulled; then which of them would be."""
    from schedkit.host.preparing import check_image

    steps = []
    for request in requests:
        check_image(session.host, request)
        verify(request.image)
        steps.append(_describe_pull(session.host.runtimes.chosen, request.image))
    return DryRun(tuple(dict.fromkeys(steps)))


def _describe_pull(runtime: "Runtime", image: "Image") -> str:
    if runtime.has_image(image):
        return f"use {image.reference}, which {runtime.driver} has already"
    return f"pull {image.reference} ({format_bytes(image.size)}) with {runtime.driver}"


def plan_start(
    session: "Session", request: "RunRequest", verify: "Verify", replaced: "Managed | None", *, and_back: bool = False
) -> DryRun:
    """Everything that `run` and `switch` look at, up to the pull; then what they would do.

    With `and_back`, the container that is replaced is kept, to be started again.
    """
    from schedkit.host.containers import find_name
    from schedkit.host.preparing import check_image

    host, image = session.host, request.image
    runtime = host.runtimes.chosen
    check_image(host, request)
    verified = verify(image)
    name, leftover = find_name(runtime, request)
    args = f", with {shlex.join(request.args)}" if request.args else ""
    steps = [_describe_pull(runtime, image)]
    if leftover:
        steps.append(f"remove the container {name}, left over from before")
    rights = " without privileges" if request.unprivileged else ""
    steps.append(f"create the container {name} in {runtime.driver}{rights}{args}")
    if replaced:
        verb = "stop" if and_back else "stop and remove"
        steps.append(f"{verb} {name_container(replaced.container)}")
    wait = f", and wait up to {format_span(request.timeout)} for the kernel to attach it" if request.wait else ""
    steps.append(f"start {name}{wait}")
    if request.replace and request.name and name != request.name:
        steps.append(f"rename it to {request.name}")
    return DryRun(tuple(steps), request.scheduler, image, verified)


def plan_restarting(session: "Session", request: "RunRequest", plan: DryRun) -> DryRun:
    """What --restart, or that it was not said, does to its unit."""
    from schedkit.host.units import RERUN, read_choice

    if request.restart.on_failure:
        return plan.add(f"have {RERUN} start it again when it fails ({request.restart})")
    return plan.add(f"remove {RERUN}") if read_choice(session.machine.root, RERUN) else plan


def name_container(container: "Container") -> str:
    """Return it as one sentence."""
    return f"the container {container.name} ({container.driver} {container.id[:SHORT_ID]})"
