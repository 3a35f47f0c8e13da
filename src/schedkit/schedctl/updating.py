"""Is there a newer version of what runs, or of what is enabled; and how to take it."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import BadDataError, NotFoundError, UnavailableError, UsageError
from schedkit.host.model import Managed, RunRequest, Switched, Verify
from schedkit.host.units import ENABLED, RERUN, Choice, read_choice
from schedkit.runtimes.labels import Label, is_unprivileged
from schedkit.runtimes.view import unseen
from schedkit.schedctl.lasting import pin, request_choice, use_choice
from schedkit.schedctl.session import ResolvedName, Session
from schedkit.schedctl.views import read_list
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.images.image import Image
    from schedkit.images.reference import Reference
    from schedkit.schedctl.planning import DryRun

_SECOND = "-2"  # of a container that is made while one of its name runs


class Subject(NamedTuple):
    """What may be outdated: a container that runs, or a choice that is enabled, or both."""

    scheduler: str
    reference: "Reference"  # by its tag, where it has one
    digest: str
    driver: str
    managed: Managed | None
    choice: Choice | None = None
    unit: str | None = None  # the unit whose choice that is


class Newest(NamedTuple):
    """The newest version there is, which may be what runs."""

    subject: Subject
    image: "Image"

    @property
    def is_newer(self) -> bool:
        """Whether it is another than what runs."""
        return self.image.digest != self.subject.digest


def find_subject(session: Session, name: str | None) -> Subject:
    """What is meant: what runs, else what is enabled; by a name, the one of the two that has it."""
    from schedkit.host.managed import observe

    choices = _read_choices(session)
    _use_sockets(session, choices)
    observed = observe(session.machine, session.runtimes)
    if len(observed.running) > 1:
        several = ", ".join(one.container.name for one in observed.running)
        raise UsageError(f"several containers managed by schedctl run: {several}", hint="`schedctl stop` all but one")
    if observed.hidden and not observed.running and name is None:
        raise unseen("no container managed by schedctl was seen to run", observed.hidden)
    found = [_describe(one, choices) for one in observed.running]
    if ENABLED in choices and not any(one.unit == ENABLED for one in found):
        choice = choices[ENABLED]
        found.append(
            Subject(choice.scheduler, _parse(choice.image), choice.digest, choice.driver, None, choice, ENABLED)
        )
    wanted = _list_names(session, name)
    meant = next((one for one in found if name is None or wanted & _names(one)), None)
    if meant:
        return meant
    what = f"{name} does not run, and is not enabled" if name else "no scheduler runs, and none is enabled"
    if observed.hidden:
        raise unseen(what, observed.hidden)
    verb = "switch" if observed.running else "run"
    raise NotFoundError(what, hint=f"`schedctl {verb} {name or 'NAME'}` takes the newest version")


def fetch_newest(session: Session, subject: Subject) -> Newest:
    """Ask the catalog and the registry, by the settings of whoever chose it."""
    if subject.choice:
        _use_choice(session, subject.choice)
    reference = _find_newest(session, subject)
    session.progress.step(f"resolving {reference}")
    return Newest(subject, session.fetch_image(ResolvedName(reference, subject.scheduler)))


def check_update(session: Session, subject: Subject) -> None:
    """What can be known before the network is asked."""
    from schedkit.host.managed import observe
    from schedkit.host.preparing import check_kernel
    from schedkit.host.switch import check_switch
    from schedkit.host.trial import check_trial

    check_trial(session.machine)
    check_kernel(session.machine, subject.scheduler)
    running = None if subject.managed else next(iter(observe(session.machine, session.runtimes).running), None)
    if running:
        raise UsageError(
            f"{subject.scheduler} is enabled, and {running.scheduler} runs",
            hint=f"`schedctl restore` goes back to the enabled one; `schedctl update {running.scheduler}` updates the"
            " other",
        )
    session.runtimes.choose(subject.driver)
    check_switch(session.host, subject.scheduler)


def make_update(newest: Newest, env: Mapping[str, str], timeout: float | None) -> RunRequest:
    """The same as now, of the newer image."""
    subject, choice = newest.subject, newest.subject.choice
    request = request_choice(choice, newest.image) if choice else _recall(newest, env)
    request = request._replace(
        env={**request.env, **env}, timeout=timeout or request.timeout, name=_next_name(subject, request.name)
    )
    return pin(request) if subject.unit else request


def apply_update(session: Session, newest: Newest, request: RunRequest, verify: Verify) -> Switched:
    """Switch, and have the unit that runs it run the newer one from now on."""
    from schedkit.host.switch import switch
    from schedkit.schedctl.enabling import hand_over
    from schedkit.schedctl.lasting import keep_restarting

    choice = newest.subject.choice
    if newest.subject.unit == ENABLED and choice:
        pinned = choice._replace(
            image=request.image.reference,
            digest=request.image.digest,
            manifest=request.image.manifest.digest,
            env=request.env,
            allow_unsigned=session.settings.allow_unsigned,
        )
        switched = hand_over(session, request, verify, pinned, write=True).switched
        if switched is None:  # somebody else was quicker, and it runs already
            raise UsageError(f"{pinned.scheduler} was updated meanwhile", hint="`schedctl status` shows what runs")
        return switched
    switched = switch(session.host, request, verify)
    keep_restarting(session, request, switched.attached)
    return switched


def plan_update(session: Session, newest: Newest, request: RunRequest, verify: Verify) -> "DryRun":
    """The same as steps."""
    from schedkit.schedctl.planning import plan_restarting, plan_start

    plan = plan_start(session, request, verify, newest.subject.managed)
    if newest.subject.unit == ENABLED:
        return plan.add(f"have {ENABLED} start {request.image.digest} at boot, in place of {newest.subject.digest}")
    return plan_restarting(session, request, plan)


def _read_choices(session: Session) -> dict[str, Choice]:
    found = {unit: read_choice(session.machine.root, unit) for unit in (ENABLED, RERUN)}
    for choice in found.values():
        if isinstance(choice, Unknown):  # what runs may be the enabled one, which must not be left behind
            raise BadDataError(choice.why, hint="`schedctl enable NAME` writes it again, `schedctl disable` removes it")
    return {unit: choice for unit, choice in found.items() if isinstance(choice, Choice)}


def _use_sockets(session: Session, choices: Mapping[str, Choice]) -> None:
    """Look where the units look, too."""
    sockets = {choice.driver: choice.socket for choice in choices.values()}
    session.settings = session.settings._replace(sockets={**sockets, **session.settings.sockets})


def _use_choice(session: Session, choice: Choice) -> None:
    said = session.settings
    use_choice(session, choice)
    allow = choice.allow_unsigned or said.allow_unsigned
    session.settings = session.settings._replace(allow_unsigned=allow)


def _describe(managed: Managed, choices: Mapping[str, Choice]) -> Subject:
    from schedkit.host.lasting import runs_choice

    labels = managed.container.labels
    unit = next((unit for unit, choice in choices.items() if runs_choice(managed, choice)), None)
    image, digest = labels.get(Label.IMAGE), labels.get(Label.DIGEST)
    if not image or not digest:
        raise UnavailableError(
            f"which version of {managed.scheduler} runs is not known: whoever started {managed.container.name} did not"
            " note it",
            hint=f"`schedctl switch {managed.scheduler}` takes the newest version",
        )
    choice = choices[unit] if unit else None
    return Subject(managed.scheduler, _parse(image), digest, managed.container.driver, managed, choice, unit)


def _parse(image: str) -> "Reference":
    """What was asked for when it was started: a unit's image has its digest beside the tag."""
    from schedkit.images.reference import parse_reference

    reference = parse_reference(image)
    return reference._replace(digest=None) if reference.tag else reference


def _list_names(session: Session, name: str | None) -> set[str]:
    if name is None:
        return set()
    entry = session.catalog.find_entry(name)
    return {name, entry.name} if entry else {name}


def _names(subject: Subject) -> set[str]:
    container = {subject.managed.container.name, subject.managed.container.id} if subject.managed else set()
    return {subject.scheduler, subject.reference.repository, *container}


def _find_newest(session: Session, subject: Subject) -> "Reference":
    """The catalog's version, the newest of the repository's, or what the same tag means now."""
    from schedkit.images.tags import find_newer, is_version

    here = subject.reference
    entries = session.catalog.entries.values()
    entry = next((one for one in entries if one.image.repository == here.repository), None)
    if here.tag is None:
        if entry is None:
            raise NotFoundError(
                f"{here} runs by its digest, and no catalog says which one is newer",
                hint=f"`schedctl versions {here.repository}` lists all, `schedctl switch` takes one",
            )
        return session.find(entry.name).reference
    tag = here.tag
    if is_version(tag):
        pinned = entry.image.tag if entry else None
        known = [pinned] if pinned and is_version(pinned) else session.registry.fetch_tags(here)
        tag = find_newer(tag, known) or tag
    if entry and entry.image.tag == tag:
        return entry.image  # with its digest, if the catalog has one
    return here._replace(tag=tag)


def _recall(newest: Newest, env: Mapping[str, str]) -> RunRequest:
    """A request from a container's labels; what they do not tell, the user is asked for."""
    managed = newest.subject.managed
    if managed is None:
        raise ValueError(newest)
    labels = managed.container.labels
    args = read_list(labels.get(Label.ARGS))
    if args is None:
        raise UnavailableError(
            f"with which arguments {managed.container.name} was started is not known",
            hint=f"`schedctl switch {managed.scheduler} -- ARGS` takes the newest version",
        )
    missing = sorted(set(read_list(labels.get(Label.ENV)) or ()) - set(env))
    if missing:
        raise UsageError(
            f"{managed.container.name} was started with variables whose values are not kept: {', '.join(missing)}",
            hint=" ".join(["say them again:", *(f"--env {name}=VALUE" for name in missing)]),
        )
    name = managed.container.name
    return RunRequest(
        image=newest.image,
        scheduler=managed.scheduler,
        name=None if re.fullmatch(rf"{re.escape(managed.scheduler)}(-\d+)?", name) else name,
        args=tuple(args),
        files=tuple(read_list(labels.get(Label.FILES)) or ()),
        host_network=labels.get(Label.NETWORK) == "host",
        unprivileged=is_unprivileged(labels),
    )


def _next_name(subject: Subject, name: str | None) -> str | None:
    """The name that was given to it, or its second: the container of now has one of the two as long as it runs."""
    if name is None or subject.managed is None:
        return name
    first = name.removesuffix(_SECOND)
    return f"{first}{_SECOND}" if subject.managed.container.name == first else first
