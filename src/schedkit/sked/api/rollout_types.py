"""Rollouts and quarantine: what a user asks for, and what the operator tells of them."""

from typing import Annotated

import msgspec

from schedkit.sked.api import rollout_rules, rules
from schedkit.sked.api.about import about
from schedkit.sked.api.kubernetes import LabelValue, SpecModel

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
    """A wait between two steps."""

    duration: Annotated[
        str | None,
        about(
            "How long to wait, as 90s, 10m or 1h30m; absent: until a person promotes the rollout.",
            rollout_rules.DURATION,
            maxLength=DURATION_LENGTH,
        ),
    ] = None


class RolloutStep(SpecModel, frozen=True, kw_only=True):
    """One step: up to how many nodes have the new revision when it is done, or a wait."""

    RULES = (rollout_rules.STEP,)

    nodes: Annotated[
        int | str | None,
        about(
            "How many nodes, or how much of them in percent, have the new revision when this step is done, "
            "those of earlier steps included.",
            rollout_rules.STEP_NODES,
            maxLength=8,
        ),
    ] = None
    node_selector: Annotated[
        dict[str, LabelValue] | None,
        about(
            "Labels of the nodes that this step may take; absent: any.",
            rules.LABEL_KEYS,
            map_type="atomic",
            maxProperties=16,
        ),
    ] = None
    pause: Annotated[RolloutPause | None, about("A wait, instead of nodes.")] = None


class RolloutFailure(SpecModel, frozen=True, kw_only=True):
    """What is done when the new revision fails."""

    max_nodes: Annotated[
        int | None,
        about(
            "On how many nodes the new revision may fail before something is done; absent means 0. "
            "Failures that leave no node to go on with are too many, too.",
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
    """How a new revision reaches the nodes, and what the kernels have to say to it."""

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
            "How many nodes, or how much of them in percent, may be without a scheduler at a time; absent means 1. "
            "Nodes that are NotReady or cordoned are left out, and not counted.",
            rules.MAX_UNAVAILABLE,
            maxLength=8,
        ),
    ] = None
    min_attached_seconds: Annotated[
        int | None,
        about(
            "For how long the kernel must have attached the new revision without a break before the node counts; "
            "absent means 60.",
            format="int32",
            minimum=0,
            maximum=86400,
        ),
    ] = None
    attach_timeout_seconds: Annotated[
        int | None,
        about(
            "How long a node's kernel may take to attach it, from when the node was given it; absent means 120.",
            format="int32",
            minimum=1,
            maximum=86400,
        ),
    ] = None
    failure: Annotated[RolloutFailure | None, about("What is done when the new revision fails.")] = None
    revision_history_limit: Annotated[
        int | None,
        about(
            "How many revisions without nodes are kept to go back to; absent means 5.",
            format="int32",
            minimum=0,
            maximum=50,
        ),
    ] = None


class Quarantine(SpecModel, frozen=True, kw_only=True):
    """When a node whose kernel keeps ejecting the scheduler is left without one."""

    after_ejections: Annotated[
        int, about("How many ejections on one node are too many.", format="int32", minimum=1, maximum=100)
    ]
    within: Annotated[
        str | None,
        about(
            "In how long a time, as 90s, 10m or 1h30m; absent means 10m.",
            rollout_rules.DURATION,
            maxLength=DURATION_LENGTH,
        ),
    ] = None
    for_: Annotated[
        str | None,
        about(
            "After how long the node is tried again; absent: when a person lifts it, or there is a new revision.",
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
    time: Annotated[str | None, about("When that was found.", format="date-time")] = None


class RolloutNodes(SpecModel, frozen=True, kw_only=True, omit_defaults=False):
    """How many nodes a rollout has reached, and how they fare."""

    updated: Annotated[int, about("Nodes that have the new revision.", format="int32")] = 0
    attached: Annotated[int, about("Of these, those attached for minAttachedSeconds.", format="int32")] = 0
    failed: Annotated[int, about("Nodes where the new revision failed.", format="int32")] = 0
    quarantined: Annotated[int, about("Nodes that are in quarantine.", format="int32")] = 0
    skipped: Annotated[
        int,
        about(
            "Nodes that are left out for now: NotReady, cordoned, unfit, or with a foreign scheduler.", format="int32"
        ),
    ] = 0


class RolloutGap(SpecModel, frozen=True, kw_only=True):
    """How long nodes were without a scheduler when they got the new revision, by the word of their kernels."""

    median_milliseconds: Annotated[int, about("Half of the nodes took no longer.", format="int64")] = 0
    worst_milliseconds: Annotated[int, about("The longest.", format="int64")] = 0


class RolloutRequests(SpecModel, frozen=True, kw_only=True):
    """The values of the annotations by which people ask for something, as they were last carried out."""

    promote: Annotated[str, about("Of sked.schedkit.io/promote.", maxLength=128)] = ""
    retry: Annotated[str, about("Of sked.schedkit.io/retry.", maxLength=128)] = ""
    undo: Annotated[str, about("Of sked.schedkit.io/undo.", maxLength=128)] = ""


class RolloutStatus(SpecModel, frozen=True, kw_only=True):
    """How a rollout of one DaemonSet's revisions stands."""

    phase: Annotated[str, about("Where it stands.", enum=list(PHASES))]
    step: Annotated[int, about("Which step it is at, from 0 on; as many as there are: all nodes.", format="int32")] = 0
    message: Annotated[str, about("What it does or waits for.", maxLength=1024)] = ""
    since: Annotated[str | None, about("Since when it is in this phase and step.", format="date-time")] = None
    current_revision: Annotated[
        str, about("The stable revision: what nodes have that the rollout has not reached.", maxLength=REVISION_LENGTH)
    ] = ""
    update_revision: Annotated[str, about("The revision that is asked for.", maxLength=REVISION_LENGTH)] = ""
    failed_revision: Annotated[
        FailedRevision | None, about("The revision that failed; it is not tried again until asked.")
    ] = None
    undone_revision: Annotated[
        str,
        about(
            "The revision that the spec asks for where a person chose another; another spec ends that.",
            maxLength=REVISION_LENGTH,
        ),
    ] = ""
    nodes: Annotated[RolloutNodes | None, about("How many nodes it has reached.")] = None
    gap: Annotated[RolloutGap | None, about("How long nodes were without a scheduler; absent until known.")] = None
    handled: Annotated[RolloutRequests | None, about("What people asked for, as far as it was carried out.")] = None
