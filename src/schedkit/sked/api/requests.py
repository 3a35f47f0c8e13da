"""What is said by labels and annotations: who has a node's slot, and what people ask of rollouts and nodes."""

import hashlib

from schedkit.sked.api.names import GROUP
from schedkit.sked.kube.objects import Key

CLAIM = f"{GROUP}/claim"  # label of a DaemonSet that is a revision: what it is a revision of
SLOT = f"{GROUP}/slot"  # label of a node: who has its slot; the annotation of that name is what sked wrote last
NONE, PENDING = "none", "pending"  # values of it: nobody is to run there; the old scheduler is leaving
NEXT = f"{GROUP}/next"  # label of a node: who is to have its slot next, and waits there for it; annotation as above
QUARANTINE = f"{GROUP}/quarantine"  # annotation of a node: why sked keeps it without a scheduler
# Annotations of a SchedExt: a new value asks, whatever it is.
PROMOTE, RETRY, REFRESH = f"{GROUP}/promote", f"{GROUP}/retry", f"{GROUP}/refresh"
UNDO = f"{GROUP}/undo"  # its value begins with the revision to go back to
REQUEST_LENGTH = 128  # so much of a value is kept as carried out
LABEL_LENGTH = 63


def make_slot(daemonset: Key) -> str:
    """A label's value that names a DaemonSet, and no other: a namespace has no dots, so the first one ends it."""
    value = f"{daemonset.namespace}.{daemonset.name}"
    if len(value) <= LABEL_LENGTH:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:10]
    # With a character that names do not have, so that it is nobody's name.
    return f"{value[: LABEL_LENGTH - len(digest) - 1]}_{digest}"
