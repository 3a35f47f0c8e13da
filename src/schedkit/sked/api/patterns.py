"""The patterns of names, labels and image references, in the syntax that Python's re and CEL's RE2 share."""

import re


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern fits the whole text."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


def cel_matches(variable: str, pattern: str) -> str:
    """The same in CEL."""
    return f'{variable}.matches(r"^(?:{pattern})$")'


_DNS = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
DNS_SUBDOMAIN = rf"{_DNS}(?:\.{_DNS})*"

LABEL_KEY = rf"(?:{DNS_SUBDOMAIN}/)?[A-Za-z\d](?:[-\w.]{{0,61}}[A-Za-z\d])?"
LABEL_VALUE = r"([A-Za-z\d]([-\w.]*[A-Za-z\d])?)?"  # short: the API server counts the length against the rules
LABEL_KEY_LENGTH = 253 + 1 + 63
WHOLE_NUMBER = r"[0-9]{1,18}"

# Image references, as the kubelet reads them: a registry counts as one only before a slash.
_HOST_WORD = r"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"
_REGISTRY = rf"(?:{_HOST_WORD}(?:\.{_HOST_WORD})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_WORD = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}"
_DIGEST = r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
IMAGE = rf"(?:{_REGISTRY}/)?{_PATH_WORD}(?:/{_PATH_WORD})*(?::{_TAG})?(?:@(?:{_DIGEST}))?"
IMAGE_LENGTH = 255 + 1 + 128 + 1 + 135
IMAGE_NAME_FITS = rf"[^@]{{0,255}}(?::{_TAG})?(?:@.*)?"
IMAGE_ID = r"[a-f0-9]{64}"

ENVIRONMENT_NAME = r"[A-Za-z_][-A-Za-z0-9_.]*"
KEY = r"[-A-Za-z0-9_.]+"
POD_FIELD = (
    r"metadata\.(?:name|namespace|uid)|metadata\.(?:labels|annotations)\['[^']+'\]"
    r"|spec\.(?:nodeName|serviceAccountName)|status\.(?:hostIP|hostIPs|podIP|podIPs)"
)
PERCENTAGE = r"(?:[1-9][0-9]?|100)%"
QUANTITY = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
DURATION = r"[0-9]{1,6}h(?:[0-9]{1,6}m)?(?:[0-9]{1,6}s)?|[0-9]{1,6}m(?:[0-9]{1,6}s)?|[0-9]{1,6}s"
