"""Quarantine by a person: which patch of a node that is. Pure functions."""

from schedkit.sked.api.requests import NONE, QUARANTINE, SLOT
from schedkit.sked.plugin.objects import ClusterNode
from schedkit.sked.plugin.session import Patch
from schedkit.sked.plugin.steering import NothingToDoError


def put_in(node: ClusterNode) -> tuple[Patch | None, str]:
    """Put a node into quarantine."""
    name = node.metadata.name
    if node.slot == NONE and not node.slot_is_ours:
        return None, f"{name} is kept without a scheduler by hand already"
    if node.quarantine:
        return None, f"{name} is in quarantine already: {node.quarantine.reason}"
    before = f"; its slot was reserved by hand for {node.slot}" if node.slot and not node.slot_is_ours else ""
    if node.slot == NONE:
        # sked's own word, which goes when the kernel is fit; what it does not remember to have written, a person wrote.
        change: Patch = {"metadata": {"annotations": {SLOT: None}}}
    else:
        change = {"metadata": {"labels": {SLOT: NONE}}}
    return change, f"{name} is to run no scheduler until `kubectl scx lift {name}`{before}"


def take_out(node: ClusterNode) -> tuple[Patch | None, str]:
    """Let sked decide again who has a node's slot."""
    name = node.metadata.name
    if node.quarantine is None and node.slot != NONE:
        reserved = f"; its slot is reserved by hand for {node.slot}" if node.slot and not node.slot_is_ours else ""
        return None, f"{name} is not in quarantine{reserved}"
    if node.quarantine is None and node.slot_is_ours:
        raise NothingToDoError(
            f"{name} is not in quarantine: sked keeps it free, as its kernel is unfit",
            hint=f"`kubectl scx why {name}` says what is missing",
        )
    labels: Patch = {"labels": {SLOT: None}} if node.slot == NONE else {}
    return {"metadata": {**labels, "annotations": {QUARANTINE: None}}}, f"{name} may have a scheduler again"
