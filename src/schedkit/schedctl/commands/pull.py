"""`schedctl pull`: have an image here before it is needed."""

import click

from schedkit.schedctl.completing import complete_scheduler
from schedkit.schedctl.options import Command, output_option, pass_session, version_option
from schedkit.schedctl.output import format_bytes
from schedkit.schedctl.session import Session
from schedkit.schedctl.trust_options import trust_options
from schedkit.schedctl.verification import check_trust_policy, make_verify


@click.command(
    cls=Command,
    short_help="Fetch an image without running it.",
    epilog="""
    schedctl pull scx_rusty
    schedctl -d containerd pull scx_bpfland --version v1.1.0
    """,
)
@click.argument("name", metavar="NAME|IMAGE", shell_complete=complete_scheduler)
@version_option
@trust_options
@output_option
@pass_session
def command(session: Session, name: str, version: str | None) -> None:
    """Fetch an image without running it, verified by the same rules as `schedctl run`."""
    check_trust_policy(session.settings)
    runtime = session.runtimes.chosen
    named = session.find(name, version)
    session.progress.step(f"resolving {named.reference}")
    image = session.fetch_image(named)
    verified = make_verify(session, runtime)(image)
    session.progress.step(f"pulling {image.reference} ({format_bytes(image.size)}) into {runtime.driver}")
    runtime.pull(image, session.progress.progress)
    session.progress.close()
    session.output.show(
        lambda: {
            "scheduler": named.scheduler,
            "image": image.reference,
            "digest": image.digest,
            "manifest": image.manifest.digest,
            "driver": runtime.driver,
            "verified": verified,
        },
        lambda: f"{image.repository}@{image.digest}",
    )
