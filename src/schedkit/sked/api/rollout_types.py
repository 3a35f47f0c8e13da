"""Rollouts and quarantine: what a user asks for, and what the operator reports."""

from typing import Annotated

import msgspec

from schedkit.sked.api import rollout_rules, rules
from schedkit.sked.api.about import about
from schedkit.sked.api.kubernetes import LabelValue, SpecModel
from schedkit.sked.api.limits import MOST_EJECTIONS

STEPS = 16
DURATION_LENGTH = 16
REVISION_LENGTH = 63
ROLLBACK, PAUSE = "Rollback", "Pause"  # what a failure does
PROGRESSING, PAUSED, ROLLING_BACK, ROLLED_BACK, COMPLETE = PHASES = (
    "Progressing",
    "Paused",
    "RollingBack",
    "RolledBack",
    "Complete",
)


class RolloutPause(SpecModel, frozen=True, kw_only=True):
    """A pause between two steps."""

    duration: Annotated[
        str | None,
        about(
            "Length of the pause, such as 90s, 10m or 1h30m; absent: until a person promotes the rollout.",
            rollout_rules.DURATION,
            maxLength=DURATION_LENGTH,
        ),
    ] = None


class RolloutStep(SpecModel, frozen=True, kw_only=True):
    """One step: how many nodes have the new revision when it is done, or a pause."""

    RULES = (rollout_rules.STEP,)

    nodes: Annotated[
        int | str | None,
        about(
            "How many nodes, or which percentage, have the new revision when this step is done, "
            "including those of earlier steps.",
            rollout_rules.STEP_NODES,
            maxLength=8,
        ),
    ] = None
    node_selector: Annotated[
        dict[str, LabelValue] | None,
        about(
            "Labels of the nodes that this step may use; absent: any node.",
            rules.LABEL_KEYS,
            map_type="atomic",
            maxProperties=16,
        ),
    ] = None
    pause: Annotated[RolloutPause | None, about("A pause, instead of nodes.")] = None


class RolloutFailure(SpecModel, frozen=True, kw_only=True):
    """What to do when the new revision fails."""

    max_nodes: Annotated[
        int | None,
        about(
            "On how many nodes the new revision may fail; absent means 0. "
            "The rollout also fails if no node is left to continue with.",
            format="int32",
            minimum=0,
        ),
    ] = None
    action: Annotated[
        str | None,
        about(
            "Rollback gives every node the stable revision again, Pause stops and waits for a person; "
            "absent means Rollback.",
            enum=[ROLLBACK, PAUSE],
        ),
    ] = None


class Rollout(SpecModel, frozen=True, kw_only=True):
    """How a new revision reaches the nodes, and what their kernels must report."""

    steps: Annotated[
        tuple[RolloutStep, ...],
        about(
            "Which nodes go first, and where to wait; after the last step all nodes follow.",
            list_type="atomic",
            maxItems=STEPS,
        ),
    ] = ()
    max_unavailable: Annotated[
        int | str | None,
        about(
            "How many nodes, or which percentage, may be without a scheduler at the same time; absent means 1. "
            "Nodes that are NotReady or cordoned are left out, and not counted.",
            rules.MAX_UNAVAILABLE,
            maxLength=8,
        ),
    ] = None
    min_attached_seconds: Annotated[
        int | None,
        about(
            "How long the new revision must stay attached before the node counts as done; absent means 60.",
            format="int32",
            minimum=0,
            maximum=86400,
        ),
    ] = None
    attach_timeout_seconds: Annotated[
        int | None,
        about(
            "How long the new revision may take to attach after the node got it; absent means 120.",
            format="int32",
            minimum=1,
            maximum=86400,
        ),
    ] = None
    failure: Annotated[RolloutFailure | None, about("What to do when the new revision fails.")] = None
    revision_history_limit: Annotated[
        int | None,
        about(
            "How many revisions without nodes to keep, so that you can go back to them; absent means 5.",
            format="int32",
            minimum=0,
            maximum=50,
        ),
    ] = None


class Quarantine(SpecModel, frozen=True, kw_only=True):
    """When to leave a node without a scheduler because its kernel repeatedly ejects it."""

    after_ejections: Annotated[
        int,
        about("How many ejections put a node into quarantine.", format="int32", minimum=1, maximum=MOST_EJECTIONS),
    ]
    within: Annotated[
        str | None,
        about(
            "The period in which they happen, such as 90s, 10m or 1h30m; absent means 10m.",
            rollout_rules.DURATION,
            maxLength=DURATION_LENGTH,
        ),
    ] = None
    for_: Annotated[
        str | None,
        about(
            "Length of the quarantine; absent: until a person lifts it, or there is a new revision.",
            rollout_rules.DURATION,
            maxLength=DURATION_LENGTH,
        ),
    ] = msgspec.field(default=None, name="for")


class FailedRevision(SpecModel, frozen=True, kw_only=True):
    """A revision that failed, where, and why."""

    revision: Annotated[str, about("Its name.", maxLength=REVISION_LENGTH)]
    node: Annotated[str, about("The first node where it failed.")] = ""
    reason: Annotated[str, about("Why, as one word that programs may match on.")] = ""
    message: Annotated[str, about("Why, as a sentence for people.", maxLength=1024)] = ""
    time: Annotated[str | None, about("When it failed.", format="date-time")] = None


class RolloutNodes(SpecModel, frozen=True, kw_only=True, omit_defaults=False):
    """How many nodes a rollout has reached, and their state."""

    updated: Annotated[int, about("Nodes that have the new revision.", format="int32")] = 0
    attached: Annotated[
        int, about("Updated nodes on which it has been attached for minAttachedSeconds.", format="int32")
    ] = 0
    failed: Annotated[int, about("Nodes where the new revision failed.", format="int32")] = 0
    quarantined: Annotated[int, about("Nodes that are in quarantine.", format="int32")] = 0
    skipped: Annotated[
        int,
        about(
            "Nodes that are left out for now: NotReady, cordoned, unfit, or with a foreign scheduler.", format="int32"
        ),
    ] = 0


class RolloutGap(SpecModel, frozen=True, kw_only=True):
    """How long nodes were without a scheduler when they got the new revision, as measured in their kernels."""

    median_milliseconds: Annotated[int, about("The median.", format="int64")] = 0
    worst_milliseconds: Annotated[int, about("The maximum.", format="int64")] = 0


class RolloutRequests(SpecModel, frozen=True, kw_only=True):
    """The values of the request annotations that were last carried out."""

    promote: Annotated[str, about("Value of sked.schedkit.io/promote.", maxLength=128)] = ""
    retry: Annotated[str, about("Value of sked.schedkit.io/retry.", maxLength=128)] = ""
    undo: Annotated[str, about("Value of sked.schedkit.io/undo.", maxLength=128)] = ""


class RolloutStatus(SpecModel, frozen=True, kw_only=True):
    """The state of a rollout."""

    phase: Annotated[str, about("The phase of the rollout.", enum=list(PHASES))]
    step: Annotated[
        int, about("The current step, from 0; the number of steps stands for all nodes.", format="int32")
    ] = 0
    message: Annotated[str, about("What it does or waits for.", maxLength=1024)] = ""
    since: Annotated[str | None, about("Since when it has been in this phase and step.", format="date-time")] = None
    current_revision: Annotated[
        str, about("The stable revision, on nodes that the rollout has not reached.", maxLength=REVISION_LENGTH)
    ] = ""
    update_revision: Annotated[str, about("The revision that the nodes should get.", maxLength=REVISION_LENGTH)] = ""
    failed_revision: Annotated[
        FailedRevision | None, about("The revision that failed; it is not tried again without a request.")
    ] = None
    undone_revision: Annotated[
        str,
        about(
            "The revision that the spec asks for, if a person chose another one; a change of the spec ends that.",
            maxLength=REVISION_LENGTH,
        ),
    ] = ""
    nodes: Annotated[RolloutNodes | None, about("How many nodes it has reached.")] = None
    gap: Annotated[RolloutGap | None, about("How long nodes were without a scheduler; absent until known.")] = None
    handled: Annotated[RolloutRequests | None, about("The requests that were carried out.")] = None
