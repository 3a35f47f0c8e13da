"""From the command line of `run` and `switch` to a request: the image, its arguments, and what it shall be called."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from schedkit.errors import NotFoundError, UsageError
from schedkit.host.model import Restart, RunRequest, parse_restart
from schedkit.schedctl.completing import complete_file, complete_scheduler, complete_word
from schedkit.schedctl.durations import attach_timeout_option
from schedkit.schedctl.modes import mode_option
from schedkit.schedctl.options import Command, Function, version_option
from schedkit.schedctl.session import Session, check_name
from schedkit.schedctl.trust_options import trust_options

_CONTAINER = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")  # what all runtimes take


class RequestCommand(Command):
    """A command that explains where the scheduler's own options go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        said = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise UsageError(error.format_message(), hint=_explain_option(ctx, error, said)) from error


def _explain_option(ctx: click.Context, error: click.NoSuchOption, said: list[str]) -> str:
    """A misspelt option of schedctl is told by click; any other may be the scheduler's, which come after its name."""
    if error.option_name in _list_run_options():
        return f"{error.option_name} is an option of `schedctl run`; '{ctx.command_path} --help' shows its own"
    at = next((index for index, word in enumerate(said) if word.startswith(error.option_name)), len(said))
    if error.possibilities or all(word.startswith("-") for word in said[:at]):
        return f"'{ctx.command_path} --help' shows the options; the scheduler's own options go after its name and --"
    meant = " ".join([*said[:at], "--", *said[at:]])
    return f"the scheduler's own options go after --: {ctx.command_path} {meant}"


def _list_run_options() -> set[str]:
    from schedkit.schedctl.commands.run import command

    return {name for option in command.params for name in option.opts}


def restart_option(function: Function) -> Function:
    """Add `--restart`, for schedulers that need not be there after the next boot."""
    return click.option(
        "--restart",
        default="no",
        show_default=True,
        metavar="no|on-failure[:N]|always",
        shell_complete=complete_word("no", "on-failure", "always"),
        help="Let systemd restart it when it fails or is ejected, at most N times, with increasing delays; always: "
        "also when it ends by itself.",
    )(function)


def env_option(function: Function) -> Function:
    """Variables of a scheduler."""
    return click.option(
        "-e",
        "--env",
        multiple=True,
        metavar="KEY[=VALUE]",
        help="Set an environment variable; KEY alone copies it from your environment.",
    )(function)


def request_options(function: Function) -> Function:
    """The arguments and options that all commands share that start a scheduler."""
    options: list[Callable[[Any], Any]] = [
        click.argument("name", metavar="NAME|IMAGE", shell_complete=complete_scheduler),
        click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"),
        version_option,
        click.option("--name", "container", metavar="NAME", help="Container name [default: the scheduler's]."),
        env_option,
        click.option(
            "--config",
            "files",
            multiple=True,
            metavar="FILE",
            shell_complete=complete_file,
            help="Let the scheduler read this file, under the same absolute path; can be repeated.",
        ),
        click.option(
            "--network",
            type=click.Choice(["none", "host"]),
            default="none",
            show_default=True,
            help="Network of the container: none, or this machine's.",
        ),
        click.option(
            "--unprivileged",
            is_flag=True,
            help="Give the container only the capabilities that loading a scheduler needs, and no devices.",
        ),
        attach_timeout_option,
    ]
    function = trust_options(mode_option(function))
    for option in reversed(options):
        function = option(function)
    return function


class Order(NamedTuple):
    """The command line, checked as far as it can be without asking anybody."""

    name: str
    version: str | None
    container: str | None
    args: tuple[str, ...]
    env: Mapping[str, str]
    host_network: bool
    restart: Restart
    timeout: float
    wait: bool
    mode: str | None = None
    files: tuple[str, ...] = ()
    unprivileged: bool = False
    replace: bool = False


def parse_order(
    name: str,
    args: Sequence[str],
    *,
    version: str | None,
    container: str | None,
    env: Sequence[str],
    network: str,
    timeout: float,
    restart: str = "no",
    wait: bool = True,
    mode: str | None = None,
    files: Sequence[str] = (),
    unprivileged: bool = False,
    replace: bool = False,
) -> Order:
    """Everything that can be wrong on the command line."""
    policy = parse_restart(restart)
    if policy.on_failure and not wait:
        raise UsageError("--restart cannot be used with --no-wait", hint="only a scheduler that attached is restarted")
    if replace and not wait:
        raise UsageError(
            "--replace cannot be used with --no-wait", hint="the old scheduler is kept until the new one has attached"
        )
    check_name(name, version)
    if container is not None and not _CONTAINER.fullmatch(container):
        raise UsageError(
            f"{container[:200]!r} is not a container name",
            hint="--name takes letters, digits, `_`, `.` and `-`, at most 128, and starts with a letter or a digit",
        )
    variables = parse_env(env, os.environ)
    return Order(
        name,
        version,
        container,
        tuple(args),
        variables,
        network == "host",
        policy,
        timeout,
        wait,
        mode,
        find_files(files),
        unprivileged,
        replace,
    )


def make_request(session: Session, order: Order) -> RunRequest:
    """Resolve the name to an image, by digest."""
    named = session.find(order.name, order.version)
    session.progress.step(f"resolving {named.reference}")
    image = session.fetch_image(named)
    session.progress.detail(f"{image.reference} is {image.digest}")
    return RunRequest(
        image=image,
        scheduler=named.scheduler,
        name=order.container,
        args=order.args,
        env=order.env,
        files=order.files,
        host_network=order.host_network,
        unprivileged=order.unprivileged,
        replace=order.replace,
        restart=order.restart,
        timeout=order.timeout,
        wait=order.wait,
    )


def find_files(names: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths of files that are there: a runtime would make a folder of one that is not."""
    paths = [os.path.abspath(name) for name in names]  # noqa: PTH100  (a link stays the name that it is)
    for name, path in zip(names, paths, strict=True):
        if not os.path.isfile(path):  # noqa: PTH113
            what = "not a file" if os.path.lexists(path) else "no such file"
            raise NotFoundError(f"--config {name}: {what}", hint="it must be a file on this machine")
    return tuple(paths)


def parse_env(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """KEY=VALUE, or KEY alone for what it is in our own environment."""
    variables = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or "\0" in word:
            raise UsageError(f"--env {word!r} names no variable", hint="--env KEY=VALUE, or --env KEY")
        if not equals and key not in environ:
            raise UsageError(f"--env {key}: no such variable here", hint=f"--env {key}=VALUE")
        variables[key] = value if equals else environ[key]
    return variables
