"""The SchedExtNode resource: what one node's kernel is doing, as the agent on that node saw it."""

from typing import Annotated

import msgspec

from schedkit.sked.api.about import about
from schedkit.sked.api.conditions import NODE_CONDITIONS
from schedkit.sked.api.kubernetes import OBJECT_NAME_LENGTH, Condition, SpecModel
from schedkit.sked.api.limits import OPS_LENGTH, PROBLEMS_TOLD, SUB_SCHEDULERS_TOLD, TEXT_LENGTH
from schedkit.sked.api.names import API_VERSION, NODE_KIND
from schedkit.sked.kube.objects import ObjectMeta


class KernelProblem(SpecModel, frozen=True, kw_only=True):
    """Something that keeps schedulers from running, may keep some, or could not be found out."""

    check: Annotated[str, about("What was looked at, named as by schedctl doctor.", maxLength=64)]
    severity: Annotated[
        str,
        about(
            "error keeps every scheduler from running, warning some, unknown could not be found out.",
            enum=["error", "warning", "unknown"],
        ),
    ]
    message: Annotated[str, about("What was seen, and what to do.", maxLength=TEXT_LENGTH)] = ""


class KernelReport(SpecModel, frozen=True, kw_only=True):
    """Which kernel the node runs, and whether it can run schedulers."""

    release: Annotated[str, about("The kernel's release, as uname -r prints it.", maxLength=TEXT_LENGTH)] = ""
    boot_id: Annotated[str, about("Which boot this is: it is another one after each reboot.", maxLength=64)] = (
        msgspec.field(default="", name="bootID")
    )
    supported: Annotated[str, about("Whether the kernel can run schedulers.", enum=["True", "False", "Unknown"])] = (
        "Unknown"
    )
    problems: Annotated[
        tuple[KernelProblem, ...],
        about("What is not well or not known, errors first.", list_type="atomic", maxItems=PROBLEMS_TOLD),
    ] = ()


class SlotReport(SpecModel, frozen=True, kw_only=True):
    """The kernel's one place for a scheduler."""

    state: Annotated[
        str,
        about(
            "The kernel's own word; unsupported where it has no sched_ext, unknown where it could not be read.",
            enum=["enabling", "enabled", "disabling", "disabled", "unsupported", "unknown"],
        ),
    ] = "unknown"
    ops: Annotated[str, about("The attached scheduler's own name; absent when none is.", maxLength=OPS_LENGTH)] = ""
    enable_seq: Annotated[
        int | None,
        about("How many schedulers were attached since boot; with bootID it names one attachment.", format="int64"),
    ] = None
    since: Annotated[
        str | None,
        about("When it was seen to attach; absent when that was while no agent looked.", format="date-time"),
    ] = None
    gap_milliseconds: Annotated[
        int | None,
        about(
            "How long the kernel was without a scheduler before this one; absent unless the agent saw both.",
            format="int64",
        ),
    ] = None
    rejected: Annotated[
        int | None, about("Tasks that the kernel refused to hand to this scheduler.", format="int64")
    ] = None
    sub_schedulers: Annotated[
        tuple[Annotated[str, about("", maxLength=OPS_LENGTH)], ...],
        about("The names of schedulers attached below it.", list_type="atomic", maxItems=SUB_SCHEDULERS_TOLD),
    ] = ()
    message: Annotated[str, about("Why the state could not be read.", maxLength=TEXT_LENGTH)] = ""


class Detachment(SpecModel, frozen=True, kw_only=True):
    """The last time that a scheduler left the slot."""

    ops: Annotated[str, about("The name of the scheduler that left; absent when unknown.", maxLength=OPS_LENGTH)] = ""
    time: Annotated[
        str | None,
        about("When it was seen to leave; absent when that was while no agent looked.", format="date-time"),
    ] = None
    enable_seq: Annotated[int | None, about("Which attachment it was.", format="int64")] = None
    reason: Annotated[str, about("Why, where the kernel tells it.", maxLength=TEXT_LENGTH)] = ""


class NodeQuarantine(SpecModel, frozen=True, kw_only=True):
    """Why a node is kept without a scheduler."""

    sched_ext: Annotated[
        str,
        about("The SchedExt that was ejected, as namespace/name.", maxLength=2 * OBJECT_NAME_LENGTH + 1),
    ]
    revision: Annotated[str, about("What it ran: another revision ends the quarantine.", maxLength=64)] = ""
    since: Annotated[str, about("Since when.", format="date-time")]
    until: Annotated[str | None, about("Until when; absent: until a person lifts it.", format="date-time")] = None
    reason: Annotated[str, about("What the kernel said last.", maxLength=TEXT_LENGTH)] = ""


class SchedExtNodeStatus(SpecModel, frozen=True, kw_only=True):
    """What the agent saw, and what the operator adds."""

    kernel: Annotated[KernelReport | None, about("Which kernel runs, and whether it can run schedulers.")] = None
    slot: Annotated[SlotReport | None, about("What the kernel's slot holds.")] = None
    last_detach: Annotated[Detachment | None, about("The last time that a scheduler left the slot.")] = None
    attachments: Annotated[
        int | None, about("Schedulers attached since boot; absent when unknown.", format="int64")
    ] = None
    departures: Annotated[
        int | None, about("Schedulers that left since boot; absent when unknown.", format="int64")
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        about(
            f"What is true, false or unknown of the node: {', '.join(NODE_CONDITIONS)}.", list_key="type", maxItems=8
        ),
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
        about("Why the node is kept without a scheduler; written by the operator, absent when it is not."),
    ] = None


class SchedExtNode(SpecModel, frozen=True, kw_only=True, omit_defaults=False):
    """What one node's kernel is doing. Agents write it; there is nothing to ask for in it."""

    api_version: Annotated[str, about("The version of the resource's form, sked.schedkit.io/v1.")] = API_VERSION
    kind: Annotated[str, about("The kind of the resource, SchedExtNode.")] = NODE_KIND
    metadata: Annotated[ObjectMeta, about("The name is the node's, which owns the report.")] = ObjectMeta()
    status: Annotated[SchedExtNodeStatus, about("What the agent saw, and what the operator adds.")] = (
        SchedExtNodeStatus()
    )
