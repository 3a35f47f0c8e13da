"""What the operator asks of its verifier and is answered: one JSON document a line."""

from typing import Final, Literal

import msgspec

POLICY: Final = "policy"
RESOLVE: Final = "resolve"
JUDGE: Final = "judge"
LONGEST = 900  # characters of a message: conditions hold 1024


class TrustSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the administrator says: the first line that a verifier reads."""

    policy: str = ""  # a file; empty: the built-in policy
    pull_secret: str = ""  # a file of the form .dockerconfigjson
    mirrors: dict[str, tuple[str, ...]] = {}
    insecure: tuple[str, ...] = ()
    ca_file: str = ""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question: what is the policy, what does a reference name now, who signed a digest."""

    id: int
    kind: Literal["policy", "resolve", "judge"]
    reference: str = ""
    secrets: tuple[str, ...] = ()  # the documents of the resource's own pull secrets


class ImageFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found; with a `reason`, why nothing was."""

    id: int
    policy: str = ""  # the hash of the policy in force
    digest: str = ""
    signer: str = ""
    rule: str = ""
    reason: str = ""
    message: str = ""
    refused: bool = False  # it was looked at, and is not trusted; else it could not be looked at
    retry_after: float | None = None  # seconds, as the registry says
