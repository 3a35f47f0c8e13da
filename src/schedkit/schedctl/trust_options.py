"""Options that say whom a command trusts."""

from schedkit.schedctl.completing import complete_file
from schedkit.schedctl.options import Function, keep_flag


def policy_option(function: Function) -> Function:
    """Whose signatures are trusted."""
    return keep_flag(
        "--trust-policy",
        metavar="FILE",
        shell_complete=complete_file,
        help="Trust policy [default: built-in] [env: SCHEDCTL_TRUST_POLICY].",
    )(function)


def offline_option(function: Function) -> Function:
    """Add `--offline`, for machines without a network, now or always."""
    return keep_flag(
        "--offline", is_flag=True, help="Use no network; accept only images that were verified on this machine before."
    )(function)


def unsigned_option(function: Function) -> Function:
    """Add `--allow-unsigned`, for who trusts an image without a signature that says so."""
    return keep_flag(
        "--allow-unsigned",
        is_flag=True,
        help="Accept an image that is unsigned or signed by others [env: SCHEDCTL_ALLOW_UNSIGNED].",
    )(function)


def trust_options(function: Function) -> Function:
    """The options of every command that lets an image in."""
    return policy_option(offline_option(unsigned_option(function)))
