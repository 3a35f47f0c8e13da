"""The SchedExtNode resource: what one node's kernel is doing, as the agent on that node saw it."""

from typing import Annotated

import msgspec

from schedkit.sked.api.about import about
from schedkit.sked.api.conditions import NODE_CONDITIONS
from schedkit.sked.api.kubernetes import OBJECT_NAME_LENGTH, Condition, SpecModel
from schedkit.sked.api.limits import MOST_EJECTIONS, OPS_LENGTH, PROBLEMS_TOLD, SUB_SCHEDULERS_TOLD, TEXT_LENGTH
from schedkit.sked.api.names import API_VERSION, NODE_KIND
from schedkit.sked.api.rules import LONGEST_REVISION
from schedkit.sked.kube.objects import ObjectMeta


class KernelProblem(SpecModel, frozen=True, kw_only=True):
    """Something that keeps schedulers from running, may keep some from running, or could not be checked."""

    check: Annotated[str, about("The check, with the name that schedctl doctor uses.", maxLength=64)]
    severity: Annotated[
        str,
        about(
            "error keeps every scheduler from running, warning some; unknown could not be checked.",
            enum=["error", "warning", "unknown"],
        ),
    ]
    message: Annotated[str, about("What was seen, and what to do.", maxLength=TEXT_LENGTH)] = ""


class KernelReport(SpecModel, frozen=True, kw_only=True):
    """Which kernel the node runs, and whether it can run schedulers."""

    release: Annotated[str, about("The kernel's release, as uname -r prints it.", maxLength=TEXT_LENGTH)] = ""
    boot_id: Annotated[str, about("The boot ID, which changes with each reboot.", maxLength=64)] = msgspec.field(
        default="", name="bootID"
    )
    supported: Annotated[str, about("Whether the kernel can run schedulers.", enum=["True", "False", "Unknown"])] = (
        "Unknown"
    )
    problems: Annotated[
        tuple[KernelProblem, ...],
        about("Problems and what is unknown, errors first.", list_type="atomic", maxItems=PROBLEMS_TOLD),
    ] = ()


class SlotReport(SpecModel, frozen=True, kw_only=True):
    """The kernel's slot for a scheduler."""

    state: Annotated[
        str,
        about(
            "The kernel's state; unsupported if it has no sched_ext, unknown if it could not be read.",
            enum=["enabling", "enabled", "disabling", "disabled", "unsupported", "unknown"],
        ),
    ] = "unknown"
    ops: Annotated[
        str, about("The attached scheduler's name in the kernel; absent if there is none.", maxLength=OPS_LENGTH)
    ] = ""
    enable_seq: Annotated[
        int | None,
        about(
            "How many schedulers were attached since boot; together with bootID it identifies one attachment.",
            format="int64",
        ),
    ] = None
    since: Annotated[
        str | None,
        about("When it attached; absent if no agent was running at that time.", format="date-time"),
    ] = None
    gap_milliseconds: Annotated[
        int | None,
        about(
            "How long the kernel was without a scheduler before this one; absent unless the agent saw both.",
            format="int64",
        ),
    ] = None
    rejected: Annotated[int | None, about("Tasks that this scheduler rejected.", format="int64")] = None
    sub_schedulers: Annotated[
        tuple[Annotated[str, about("", maxLength=OPS_LENGTH)], ...],
        about("The names of schedulers attached below it.", list_type="atomic", maxItems=SUB_SCHEDULERS_TOLD),
    ] = ()
    message: Annotated[str, about("Why the state could not be read.", maxLength=TEXT_LENGTH)] = ""


class Detachment(SpecModel, frozen=True, kw_only=True):
    """The last time that a scheduler left the slot."""

    ops: Annotated[str, about("The name of the scheduler that left; absent if unknown.", maxLength=OPS_LENGTH)] = ""
    time: Annotated[
        str | None,
        about("When it left; absent if no agent was running at that time.", format="date-time"),
    ] = None
    enable_seq: Annotated[int | None, about("The enable_seq of that attachment.", format="int64")] = None
    reason: Annotated[str, about("Why it left, if known.", maxLength=TEXT_LENGTH)] = ""


class NodeQuarantine(SpecModel, frozen=True, kw_only=True):
    """Why a node is kept without a scheduler."""

    sched_ext: Annotated[
        str,
        about("The SchedExt that was ejected, as namespace/name.", maxLength=2 * OBJECT_NAME_LENGTH + 1),
    ]
    revision: Annotated[
        str, about("The revision that was ejected; another revision ends the quarantine.", maxLength=LONGEST_REVISION)
    ] = ""
    since: Annotated[str, about("Start of the quarantine.", format="date-time")]
    until: Annotated[
        str | None, about("End of the quarantine; absent: until a person lifts it.", format="date-time")
    ] = None
    reason: Annotated[str, about("The kernel's last reason.", maxLength=TEXT_LENGTH)] = ""


class NodeEjections(SpecModel, frozen=True, kw_only=True):
    """The ejections on a node that count towards a quarantine."""

    sched_ext: Annotated[
        str,
        about("The SchedExt that was ejected, as namespace/name.", maxLength=2 * OBJECT_NAME_LENGTH + 1),
    ]
    revision: Annotated[
        str, about("The revision that was ejected; another one is counted from zero.", maxLength=LONGEST_REVISION)
    ] = ""
    last: Annotated[str, about("The last one that was counted.", format="date-time")]
    times: Annotated[
        tuple[str, ...],
        about("When they happened; empty after they led to a quarantine.", maxItems=MOST_EJECTIONS),
    ] = ()


class SchedExtNodeStatus(SpecModel, frozen=True, kw_only=True):
    """What the agent saw, and what the operator adds."""

    kernel: Annotated[KernelReport | None, about("Which kernel runs, and whether it can run schedulers.")] = None
    slot: Annotated[SlotReport | None, about("The state of the kernel's slot.")] = None
    last_detach: Annotated[Detachment | None, about("The last time that a scheduler left the slot.")] = None
    attachments: Annotated[int | None, about("Schedulers attached since boot; absent if unknown.", format="int64")] = (
        None
    )
    departures: Annotated[int | None, about("Schedulers that left since boot; absent if unknown.", format="int64")] = (
        None
    )
    conditions: Annotated[
        tuple[Condition, ...],
        about(f"The conditions of the node: {', '.join(NODE_CONDITIONS)}.", list_key="type", maxItems=8),
    ] = ()
    sched_ext: Annotated[
        str,
        about(
            "The SchedExt that has the node, as namespace/name; written by the operator.",
            maxLength=2 * OBJECT_NAME_LENGTH + 1,
        ),
    ] = ""
    quarantine: Annotated[
        NodeQuarantine | None,
        about("Why the node is kept without a scheduler, if it is; written by the operator."),
    ] = None
    ejections: Annotated[
        NodeEjections | None,
        about("Ejections that count towards a quarantine, where the SchedExt asks for one; written by the operator."),
    ] = None


class SchedExtNode(SpecModel, frozen=True, kw_only=True, omit_defaults=False):
    """What one node's kernel is doing. Agents write it; it has no spec."""

    api_version: Annotated[str, about("The API version, sked.schedkit.io/v1.")] = API_VERSION
    kind: Annotated[str, about("The kind of the resource, SchedExtNode.")] = NODE_KIND
    metadata: Annotated[ObjectMeta, about("The name is that of the node, which owns the report.")] = ObjectMeta()
    status: Annotated[SchedExtNodeStatus, about("What the agent saw, and what the operator adds.")] = (
        SchedExtNodeStatus()
    )
