"""`schedctl update`: the newest version of what runs."""

import os
from typing import TYPE_CHECKING

import click

from schedkit.errors import ExitCode
from schedkit.schedctl.commands.switch import describe_switched
from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.durations import timeout_option
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json
from schedkit.schedctl.planning import dry_run_option, show_plan
from schedkit.schedctl.requests import env_option, parse_env
from schedkit.schedctl.session import Session
from schedkit.schedctl.trust_options import unsigned_option
from schedkit.schedctl.updating import (
    Newest,
    apply_update,
    check_update,
    fetch_newest,
    find_subject,
    make_update,
    plan_update,
)
from schedkit.schedctl.verification import check_trust_policy, make_verify
from schedkit.schedctl.views import attached_fields, container_fields

if TYPE_CHECKING:
    from schedkit.host.model import Switched

SHORT_DIGEST = 19  # sha256: and twelve digits, as people compare them


@click.command(
    cls=Command,
    short_help="Switch to the newest version of the running scheduler.",
    epilog="""
    schedctl update --check
    schedctl update
    schedctl update scx_rusty -o json | jq .gap_seconds
    """,
)
@click.argument("name", required=False, metavar="[NAME]", shell_complete=complete_container)
@click.option("--check", is_flag=True, help="Only check; the exit code is 19 if there is a newer version.")
@env_option
@timeout_option(None, "it may take to attach [default: as it was enabled with, or 30s]", above=0.0)
@unsigned_option
@dry_run_option
@output_option
@pass_session
def command(
    session: Session, name: str | None, check: bool, env: tuple[str, ...], timeout: float | None, dry_run: bool
) -> int | None:
    """Look for a newer version of the running scheduler, or else of the enabled one, and switch to it.

    A newer version is a higher version than its tag, or, for a tag such as latest, another image with the same tag. It
    is verified, pulled and started as with `schedctl switch`, with the same arguments, files and runtime. If it does
    not attach, the old version is started again. If the running scheduler is enabled, the newer version is enabled
    instead.
    """
    variables = parse_env(env, os.environ)
    if not check:
        session.require_root("update")
    check_trust_policy(session.settings)
    subject = find_subject(session, name)
    if not check:
        check_update(session, subject)
    newest = fetch_newest(session, subject)
    if check or not newest.is_newer:
        session.output.show(lambda: _fields(newest, None), lambda: _describe(newest))
        return ExitCode.OUTDATED if newest.is_newer else ExitCode.OK
    session.progress.step(_describe(newest))
    request = make_update(newest, variables, timeout)
    verify = make_verify(session, session.runtimes.chosen)
    if dry_run:
        show_plan(session, plan_update(session, newest, request, verify))
        return None
    switched = apply_update(session, newest, request, verify)
    session.output.show(lambda: _fields(newest, switched), lambda: describe_switched(switched, subject.scheduler))
    return None


def _fields(newest: Newest, switched: "Switched | None") -> Json:
    subject = newest.subject
    return {
        "scheduler": subject.scheduler,
        "image": str(subject.reference),
        "digest": subject.digest,
        "newest_image": newest.image.reference,
        "newest_digest": newest.image.digest,
        "newer": newest.is_newer,
        "unit": subject.unit,
        "updated": switched is not None,
        "container": attached_fields(switched.attached) if switched else None,
        "replaced": container_fields(switched.replaced) if switched and switched.replaced else None,
        "gap_seconds": round(switched.gap, 3) if switched and switched.gap is not None else None,
    }


def _describe(newest: Newest) -> str:
    subject, image = newest.subject, newest.image
    if not newest.is_newer:
        return f"{subject.scheduler} is up to date: {image.reference} is {image.digest[:SHORT_DIGEST]}"
    before = f"{subject.reference.tag or 'digest'} ({subject.digest[:SHORT_DIGEST]})"
    return f"{subject.scheduler} has a newer version: {image.reference} ({image.digest[:SHORT_DIGEST]}), not {before}"
