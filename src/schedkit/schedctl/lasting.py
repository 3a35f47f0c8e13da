"""From a command line to a scheduler that lasts: its choice, the unit that has it, and how that unit runs it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.errors import NoAnswerError, NotFoundError, SchedkitError, UnavailableError
from schedkit.host.model import RunRequest, RunResult, Verify, parse_restart
from schedkit.runtimes.labels import Label

if TYPE_CHECKING:
    from schedkit.host.units import Choice
    from schedkit.images.image import Image
    from schedkit.runtimes.container import Container
    from schedkit.schedctl.requests import Order
    from schedkit.schedctl.session import ResolvedName, Session


def find_program() -> tuple[str, ...]:
    """This schedctl, as somebody who has no PATH starts it."""
    import shutil

    path = os.path.abspath(sys.argv[0]) if "/" in sys.argv[0] else shutil.which(sys.argv[0])  # noqa: PTH100 (keep links)
    if path and not path.endswith(".py") and os.access(path, os.X_OK):
        return (path,)
    return (sys.executable, "-m", "schedkit.schedctl")


WITHOUT_SYSTEMD = "use another supervisor to run and restart: schedctl run NAME --attach"


def check_systemd(session: "Session", what: str, hint: str = WITHOUT_SYSTEMD) -> None:
    """Say that systemd is missing before anything is done that needs it."""
    from schedkit.host.systemd import check_systemd

    check_systemd(session.machine.root, what, hint)


def check_restart(session: "Session", order: "Order") -> None:
    """What `--restart` needs."""
    if order.restart.on_failure:
        check_systemd(session, "--restart")


def pin(request: RunRequest) -> RunRequest:
    """The same by its digest, under a name of its own in the runtime: a tag that moves takes its name along."""
    return request._replace(image=request.image.pin())


def make_choice(session: "Session", request: RunRequest, *, verified: str = "", mode: str = "") -> "Choice":
    """Everything that running this request again takes, on the runtime that was chosen now."""
    from schedkit.host.units import Choice

    settings, runtime = session.settings, session.runtimes.chosen
    policy = settings.trust_policy
    return Choice(
        scheduler=request.scheduler,
        image=request.image.reference,
        digest=request.image.digest,
        driver=runtime.driver,
        socket=runtime.socket,
        verified=verified,
        restart=str(request.restart),
        args=request.args,
        mode=mode,
        files=request.files,
        name=request.name,
        env=request.env,
        host_network=request.host_network,
        unprivileged=request.unprivileged,
        timeout=request.timeout,
        trust_policy=os.path.abspath(policy) if policy else "",  # noqa: PTH100 (keep links)
        allow_unsigned=settings.allow_unsigned,
        insecure_registries=tuple(sorted(settings.insecure_registries)),
        cache=str(settings.cache),
        manifest=request.image.manifest.digest,
    )


def keep_restarting(session: "Session", request: RunRequest, attached: RunResult) -> None:
    """Have systemd restart what has just attached, if that was asked for; what it restarted before is no more."""
    from schedkit.host.lasting import end_lasting, start_lasting
    from schedkit.host.units import RERUN

    if not request.restart.on_failure:
        end_lasting(session.machine, RERUN)
        return
    choice = make_choice(session, request, verified=read_verified(attached.container))
    start_lasting(session.machine, choice, find_program(), RERUN)
    session.progress.detail(f"{RERUN} restarts it when it fails; `journalctl -u {RERUN}` has its output")


def read_verified(container: "Container") -> str:
    """Who signed a container's image, as was noted when it was made."""
    return container.labels.get(Label.VERIFIED, "")


def use_choice(session: "Session", choice: "Choice") -> None:
    """Have a session do as the one that made the choice: the same runtime, policy and cache, whoever's home it is."""
    settings = session.settings
    session.settings = settings._replace(
        driver=choice.driver,
        sockets={**settings.sockets, choice.driver: choice.socket},
        trust_policy=choice.trust_policy or settings.trust_policy,  # one that an administrator wrote since, too
        allow_unsigned=choice.allow_unsigned,
        insecure_registries=settings.insecure_registries | frozenset(choice.insecure_registries),
        cache=Path(choice.cache) if choice.cache else settings.cache,
    )


def recall_request(session: "Session", choice: "Choice") -> tuple[RunRequest, Verify]:
    """The pinned image, and what may let it in.

    Without network if it was verified before and is here, as at most boots; else by its registry, from here on. If that
    cannot be reached, it is enough that this digest was verified when the trusted root was another one.
    """
    from schedkit.images.reference import parse_reference
    from schedkit.schedctl.session import ResolvedName
    from schedkit.schedctl.verification import make_verify
    from schedkit.trust.errors import UnverifiedError

    named = ResolvedName(parse_reference(choice.image), choice.scheduler)
    settings = session.settings
    session.settings = settings._replace(offline=True)
    try:
        return _recall(session, choice, named)
    except (UnverifiedError, NotFoundError) as error:
        session.progress.detail(error.message)
    session.settings = settings._replace(offline=False)
    session.progress.step(f"resolving {named.reference}")
    try:
        image = session.fetch_image(named)
    except (UnavailableError, NoAnswerError) as unreachable:
        session.settings = settings._replace(offline=True)
        try:
            found = _recall(session, choice, named, by_any_root=True)
        except SchedkitError:
            raise unreachable from None
        session.progress.warn(f"{unreachable.message}; it was verified before, by an older trusted root")
        return found
    return request_choice(choice, image), make_verify(session, session.runtimes.chosen)


def _recall(
    session: "Session", choice: "Choice", named: "ResolvedName", *, by_any_root: bool = False
) -> tuple[RunRequest, Verify]:
    """The same without network, from what was kept when it was verified."""
    from schedkit.schedctl.verification import make_verify

    image = session.fetch_image(named)
    verified = make_verify(session, session.runtimes.chosen, by_any_root=by_any_root)(image)
    return request_choice(choice, image), lambda _: verified  # once is enough


def request_choice(choice: "Choice", image: "Image") -> RunRequest:
    """What a choice asks for, of this image."""
    return RunRequest(
        image=image,
        scheduler=choice.scheduler,
        name=choice.name,
        args=choice.args,
        files=choice.files,
        env=choice.env,
        host_network=choice.host_network,
        unprivileged=choice.unprivileged,
        restart=parse_restart(choice.restart),
        timeout=choice.timeout,
    )
